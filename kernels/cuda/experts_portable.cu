// The experts without bulk copies or clusters: three launches, gate-up, down, and the sum of each row's
// slots. A block takes 64 outputs of one active expert, for all of its rows in groups; its warps stream the
// packed weights (experts_layout.h) from memory straight into matrix fragments, the rows come from L1 and L2.
//
// The sums are those of experts.cu: warp w takes the inputs whose block of 32 is w mod 4, the four sums of an
// output are added in pairs, and a row adds its slots in their order. So a row's bits depend on that row
// alone.
#include <algorithm>

#include "kernels/cuda/experts_portable.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/silu.cuh"

namespace lynx::cuda {
namespace {

using namespace portable_experts;

// silu(gate) * up of `rows` pairs from `pair` on: 16 features a unit.
struct GateUp {
  static __device__ const std::uint16_t* input(const Job& job, const Task&, std::uint32_t pair) {
    return job.args.x + job.args.plan.row_of[pair] * job.args.x_stride;
  }
  static __device__ void write(const Job& job, const Task& t, const PartialSums& sums, std::uint32_t pair,
                               std::uint32_t rows) {
    constexpr unsigned kFeatures = kOutputs / 2;
    const unsigned feature = threadIdx.x % kFeatures;
    const unsigned row = threadIdx.x / kFeatures;
    const std::uint32_t unit = t.unit + feature / 16;
    if (row >= rows || unit >= job.matrix.unit_rows) return;
    const unsigned column = feature / 16 * kUnitOutputs + feature % 16;
    const float value = silu(sums.total(row, column)) * sums.total(row, column + 16);
    auto* to = reinterpret_cast<__nv_bfloat16*>(job.activations) + (pair + row) * job.activation_stride;
    to[unit * 16 + feature % 16] = __float2bfloat16_rn(value);
  }
};
static_assert(kThreads == kRowTile * kOutputs / 2, "a thread a feature of 8 rows");

// Weighted outputs of each pair.
struct Down {
  static __device__ const std::uint16_t* input(const Job& job, const Task& t, std::uint32_t pair) {
    return job.activations + std::size_t{pair} * job.activation_stride + t.first_input;
  }
  static __device__ void write(const Job& job, const Task& t, const PartialSums& sums, std::uint32_t pair,
                               std::uint32_t rows) {
    const DevicePlan& plan = job.args.plan;
    for (unsigned i = threadIdx.x; i < rows * kOutputs; i += kThreads) {
      const unsigned output = i % kOutputs;
      const unsigned row = i / kOutputs;
      const std::size_t column = std::size_t{t.unit} * kUnitOutputs + output;
      if (column >= job.args.shape.hidden) continue;
      const std::size_t slot = std::size_t{plan.row_of[pair + row]} * plan.top_k + plan.slot_of[pair + row];
      job.partial[(slot * job.matrix.parts + t.part) * job.args.shape.hidden + column] =
          plan.pair_weight[pair + row] * sums.total(row, output);
    }
  }
};

// kTiles times 8 rows from `pair` on.
template <typename Phase, unsigned kTiles>
__device__ void run_rows(const Job& job, const Task& t, const Warp& warp, PartialSums& sums,
                         std::uint32_t pair, std::uint32_t rows) {
  const std::uint16_t* inputs[kTiles];
#pragma unroll
  for (unsigned n = 0; n < kTiles; ++n) {
    const std::uint32_t row = n * kRowTile + warp.lane / 4;
    inputs[n] = row < rows ? Phase::input(job, t, pair + row) : nullptr;
  }
  Sums<kTiles> sum = {};
  multiply_all<kTiles>(sum, t, warp, inputs);
#pragma unroll
  for (unsigned n = 0; n < kTiles; ++n) {
    if (n * kRowTile >= rows) break;
    write_sums<kTiles>(sums, sum, n, warp);
    __syncthreads();
    Phase::write(job, t, sums, pair + n * kRowTile, min(kRowTile, rows - n * kRowTile));
    __syncthreads();
  }
}

template <typename Phase>
__global__ void __launch_bounds__(kThreads, 2) experts_kernel(const __grid_constant__ Job job) {
  __shared__ PartialSums sums;
  grid_dependency_wait();
  if (blockIdx.y >= *job.args.plan.count) return;
  const Warp warp;
  const Task t = task_of(job, warp);
  std::uint32_t done = 0;
  constexpr std::uint32_t kMost = 6 * kRowTile;
  for (; t.rows - done > 2 * kRowTile; done += min(kMost, t.rows - done))
    run_rows<Phase, 6>(job, t, warp, sums, t.first_pair + done, min(kMost, t.rows - done));
  if (t.rows - done > kRowTile)
    run_rows<Phase, 2>(job, t, warp, sums, t.first_pair + done, t.rows - done);
  else if (t.rows > done)
    run_rows<Phase, 1>(job, t, warp, sums, t.first_pair + done, t.rows - done);
}

// A block a row, a thread four outputs. Padding rows stay as they are.
__global__ void __launch_bounds__(256)
    sum_kernel(const __grid_constant__ ExpertsArgs args, const float* partial, std::uint32_t parts) {
  grid_dependency_wait();
  const DevicePlan& plan = args.plan;
  const std::size_t hidden = args.shape.hidden;
  const std::uint32_t* slots = plan.expert_of + std::size_t{blockIdx.x} * plan.top_k;
  if (slots[0] == ExpertPlan::kNoExpert) return;
  for (std::uint32_t column = threadIdx.x * 4; column < hidden; column += blockDim.x * 4) {
    const float* from = partial + std::size_t{blockIdx.x} * plan.top_k * parts * hidden + column;
    float4 sum = {0, 0, 0, 0};
    for (std::uint32_t i = 0; i < plan.top_k * parts; ++i) {
      if (slots[i / parts] == ExpertPlan::kNoExpert) continue;
      const float4 part = *reinterpret_cast<const float4*>(from + i * hidden);
      sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
    }
    auto* to = reinterpret_cast<float4*>(args.out + blockIdx.x * args.out_stride + column);
    const float4 old = *to;
    *to = {old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w};
  }
}

}  // namespace

void experts_add_portable(const ExpertsArgs& args, cudaStream_t stream) {
  const DevicePlan& plan = args.plan;
  Job job = gate_up_job(args);
  // As many experts as there can be; blocks of those that are not active leave at once.
  const std::uint32_t experts = std::min(args.shape.experts, plan.rows * plan.top_k);
  const auto shape = [&] {
    return Shape{.grid = dim3(ceil_div(job.matrix.unit_rows, kUnitsOfTask), experts, job.matrix.parts),
                 .block = dim3(kThreads)};
  };
  launch("experts_portable: gate-up", experts_kernel<GateUp>, shape(), stream, Overlap::kPrevious, job);
  job.matrix = down_layout(args.shape);
  launch("experts_portable: down", experts_kernel<Down>, shape(), stream, Overlap::kPrevious, job);
  add_slots_portable(args, job.partial, job.matrix.parts, stream);
}

void add_slots_portable(const ExpertsArgs& args, const float* partial, std::uint32_t parts,
                        cudaStream_t stream) {
  launch("experts: sum of slots", sum_kernel, Shape{.grid = dim3(args.plan.rows), .block = dim3(256)}, stream,
         Overlap::kPrevious, args, partial, parts);
}

}  // namespace lynx::cuda
