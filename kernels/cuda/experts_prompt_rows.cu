#include "kernels/cuda/experts_prompt_rows.h"

#include "kernels/cuda/experts_layout.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::hopper_prompt {
namespace {

constexpr unsigned kOrderThreads = 256;
constexpr unsigned kSumThreads = 256;
constexpr unsigned kSlotsAtOnce = 8;

// A thread 16 bytes.
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

// A block a row, a thread eight outputs. A thread's parts come through shared memory, in which nobody else
// looks at them: of plain loads the compiler had few on their way at a time.
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

}  // namespace

void order_rows(const ExpertsArgs& args, std::uint16_t* to, cudaStream_t stream) {
  const std::size_t pieces = std::size_t{args.plan.rows} * args.shape.hidden / 8;
  const auto blocks = static_cast<unsigned>((pieces + kOrderThreads - 1) / kOrderThreads);
  launch("experts of prompts: rows", order_rows_kernel, Shape{dim3(blocks), dim3(kOrderThreads)}, stream,
         Overlap::kPrevious, args, to);
}

void add_ordered_slots(const ExpertsArgs& args, const Part* parts, std::uint32_t* counters,
                       cudaStream_t stream) {
  launch("experts of prompts: sum", add_ordered_slots_kernel, Shape{dim3(args.plan.rows), dim3(kSumThreads)},
         stream, Overlap::kPrevious, args, parts, counters);
}

}  // namespace lynx::cuda::hopper_prompt
