// Before and after the two products of experts_prompt_hopper.cu: rows in the order of the fragments, and the
// sum of a row's slots.
#pragma once

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/experts_job.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::hopper_prompt {

// A pair's weighted outputs, [B, k, H] bf16: as f32 they were the most of what these kernels move, and to
// round them adds to an output what rounding the activations adds. Of 32 outputs 8 m + g stands at 4 g + m: a
// lane of the products has the four of one g.
using Part = __nv_bfloat16;

// The inputs of each block of 32, in which 8 q + 2 i + b comes to stand at 8 i + 2 q + b: packed weights
// (experts_layout.h) give lane q of an instruction 8 q .. 8 q + 7, and wgmma gives it two from each 16 bytes
// of a row. A thread 16 bytes. to: [B, H]
inline constexpr unsigned kOrderThreads = 256;

__global__ void __launch_bounds__(kOrderThreads)
    order_rows_kernel(const __grid_constant__ ExpertsArgs args, std::uint16_t* to) {
  grid_dependency_wait();
  release_dependents();  // not before: the next kernel takes the plan for granted
  const std::uint32_t pieces = args.shape.hidden / 8;  // of a row, a multiple of 4
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint32_t row = static_cast<std::uint32_t>(i / pieces);
  const std::uint32_t piece = static_cast<std::uint32_t>(i % pieces);
  uint4 v = {};
  if (row < args.plan.rows) v = *reinterpret_cast<const uint4*>(args.x + row * args.x_stride + piece * 8);
  // A transposition of 4 x 4 words among four lanes: of 2 x 2 first, then of words in them.
  const bool odd = threadIdx.x % 2 != 0;
  const std::uint32_t a = __shfl_xor_sync(kAllLanes, odd ? v.x : v.y, 1);
  const std::uint32_t b = __shfl_xor_sync(kAllLanes, odd ? v.z : v.w, 1);
  (odd ? v.x : v.y) = a;
  (odd ? v.z : v.w) = b;
  const bool high = threadIdx.x % 4 >= 2;
  const std::uint32_t c = __shfl_xor_sync(kAllLanes, high ? v.x : v.z, 2);
  const std::uint32_t d = __shfl_xor_sync(kAllLanes, high ? v.y : v.w, 2);
  (high ? v.x : v.z) = c;
  (high ? v.y : v.w) = d;
  if (row < args.plan.rows)
    *reinterpret_cast<uint4*>(to + std::size_t{row} * args.shape.hidden + piece * 8) = v;
}

inline constexpr unsigned kSumThreads = 256;
inline constexpr unsigned kSlotsAtOnce = 8;

// A block a row, a thread eight outputs. A thread's parts come through shared memory, in which nobody else
// looks at them: of plain loads the compiler had few on their way at a time. Padding rows stay as they are.
// counters: of the tiles of both products, left at zero.
__global__ void __launch_bounds__(kSumThreads)
    add_ordered_slots_kernel(const __grid_constant__ ExpertsArgs args, const Part* parts,
                             std::uint32_t* counters) {
  __shared__ uint4 landed[kSlotsAtOnce][kSumThreads];
  grid_dependency_wait();
  if (blockIdx.x == 0 && threadIdx.x < 2) counters[threadIdx.x] = 0;
  const std::size_t hidden = args.shape.hidden;
  const unsigned top_k = args.plan.top_k;
  const std::uint32_t* experts = args.plan.expert_of + std::size_t{blockIdx.x} * top_k;
  if (experts[0] == ExpertPlan::kNoExpert) return;
  for (std::uint32_t i = threadIdx.x; i < hidden / 8; i += kSumThreads) {
    const Part* from = parts + std::size_t{blockIdx.x} * top_k * hidden + i * 8;
    auto* to =
        reinterpret_cast<float2*>(args.out + blockIdx.x * args.out_stride + i / 4 * kUnitOutputs + i % 4 * 2);
    float2 out[4];
    float sum[8] = {};
    for (unsigned base = 0; base < top_k; base += kSlotsAtOnce) {
      const unsigned slots = min(kSlotsAtOnce, top_k - base);
#pragma unroll
      for (unsigned slot = 0; slot < kSlotsAtOnce; ++slot)
        if (slot < slots) copy_16(&landed[slot][threadIdx.x], from + (base + slot) * hidden);
      if (base == 0)
#pragma unroll
        for (unsigned m = 0; m < 4; ++m) out[m] = to[4 * m];
      wait_for_all_copies();
      for (unsigned slot = 0; slot < slots; ++slot) {
        if (experts[base + slot] == ExpertPlan::kNoExpert) continue;
        float part[8];
        load8(part, reinterpret_cast<const Part*>(&landed[slot][threadIdx.x]));
#pragma unroll
        for (unsigned j = 0; j < 8; ++j) sum[j] += part[j];
      }
    }
#pragma unroll
    for (unsigned m = 0; m < 4; ++m) to[4 * m] = {out[m].x + sum[m], out[m].y + sum[4 + m]};
  }
}

}  // namespace lynx::cuda::hopper_prompt
