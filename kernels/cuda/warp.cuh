// Warp primitives: reductions, matrix instructions, and the ordering calls of programmatic dependent launch.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#ifdef LYNX_STEP_TIMELINE
#include <stdexcept>

#include "kernels/cuda/step_timeline.h"
#endif

namespace lynx::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

#ifdef LYNX_STEP_TIMELINE
static __device__ StepMark* step_marks;
static void set_step_marks(StepMark* marks) {
  if (cudaMemcpyToSymbol(step_marks, &marks, sizeof marks) != cudaSuccess)
    throw std::runtime_error("cudaMemcpyToSymbol of the step's marks");
}
static const int step_marks_known = (step_mark_setters().push_back(set_step_marks), 0);

__device__ inline std::uint64_t step_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  return now;
}
__device__ inline void leave_step_mark(std::uint64_t waits) {
  if (step_marks == nullptr || (threadIdx.x | blockIdx.x | blockIdx.y | blockIdx.z) != 0) return;
  const std::uint64_t ready = step_nanoseconds();
  step_marks[ready / kStepTick % kStepMarks] = {waits, ready, gridDim.x * gridDim.y * gridDim.z, blockDim.x,
                                                0};
}
#endif

// See launch.h.
__device__ inline void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
#ifdef LYNX_STEP_TIMELINE
  const std::uint64_t waits = step_nanoseconds();
#endif
  asm volatile("griddepcontrol.wait;" ::: "memory");
#ifdef LYNX_STEP_TIMELINE
  leave_step_mark(waits);
#endif
#endif
}
// The kernel after this one may be launched once every block has said this.
__device__ inline void release_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ inline std::uint32_t live_count(const std::uint32_t* live_rows, std::uint32_t rows) {
  return live_rows == nullptr ? rows : min(*live_rows, rows);
}

// The number of this thread's warp, in a form that the compiler knows to be the same for all its lanes: loops
// over it then need no convergence barriers around warp-wide instructions.
__device__ inline unsigned warp_index() { return __shfl_sync(kAllLanes, threadIdx.x / kWarp, 0); }

template <typename T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(kAllLanes, value, mask);
  return value;
}

// The sum of the lanes up to and with this one.
template <typename T>
__device__ inline T warp_prefix_sum(T value, unsigned lane) {
#pragma unroll
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const T other = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, mask));
  return value;
}

// d += a b: a [16, 16] by rows, b [16, 8] by columns, bf16; d [16, 8] f32. Lane = 4 g + q holds
// a: {g, 2q..} {g+8, 2q..} {g, 2q+8..} {g+8, 2q+8..}; b: {2q.., g} {2q+8.., g}; d: {g, 2q..} {g+8, 2q..}.
__device__ inline void mma_16816(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                 std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Two f32 as bf16, rounded to nearest even; `low` in the lower half.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

}  // namespace lynx::cuda
