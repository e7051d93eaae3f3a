// The expert kernel: one persistent block a multiprocessor, eight consumer warps and two producer warps.
#include "kernels/cuda/experts.h"

#include "kernels/cuda/experts_consumer.cuh"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace {

constexpr std::uint32_t kThreads = kConsumers + 2 * kWarp;
constexpr std::uint32_t kMaxSumRows = 64;  // more rows: a launch of its own sums them

struct ExpertsShared {
  Ring ring;
  OutputShared outputs;
  TaskTables tables;
};
static_assert(sizeof(ExpertsShared) <= 227 * 1024, "a block's shared memory on Hopper");

__global__ void __launch_bounds__(kThreads, 1) experts_kernel(const __grid_constant__ ExpertsJob job) {
  extern __shared__ __align__(128) std::byte memory[];
  ExpertsShared& s = *reinterpret_cast<ExpertsShared*>(memory);
  if (threadIdx.x == 0) {
    init_ring(s.ring);
    s.outputs.last_units = 0;
  }
  release_dependents();
  grid_dependency_wait();
  build_tables(job, s.tables);
  const std::uint32_t warp = threadIdx.x / kWarp;
  if (warp < kConsumerWarps) {
    Consumer(job, s.tables, s.ring, s.outputs).run();
  } else if (warp == kConsumerWarps) {
    if (threadIdx.x % kWarp == 0) produce_weights(job, s.tables, s.ring);
  } else {
    copy_engine_fence();
    produce_inputs(job, s.tables, s.ring);
  }
}

// For batches whose sum is too much for the tail of the kernel: a thread sums four outputs of one row.
__global__ void __launch_bounds__(256) add_slots_kernel(const __grid_constant__ ExpertsJob job) {
  grid_dependency_wait();
  const DevicePlan& plan = job.args.plan;
  const std::uint32_t hidden = job.args.shape.hidden;
  const std::uint32_t row = blockIdx.x;
  const std::uint32_t* experts = plan.expert_of + row * plan.top_k;
  if (experts[0] == ExpertPlan::kNoExpert) return;
  for (std::uint32_t column = threadIdx.x * 4; column < hidden; column += blockDim.x * 4) {
    const float* from = job.workspace.partial + std::size_t{row} * plan.top_k * hidden + column;
    float4 sum = {0, 0, 0, 0};
    for (std::uint32_t s = 0; s < plan.top_k; ++s) {
      if (experts[s] == ExpertPlan::kNoExpert) continue;
      const float4 part = *reinterpret_cast<const float4*>(from + std::size_t{s} * hidden);
      sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
    }
    auto* to = reinterpret_cast<float4*>(job.args.out + row * job.args.out_stride + column);
    const float4 old = *to;
    *to = {old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w};
  }
}

}  // namespace

void experts_add(const ExpertsArgs& args, cudaStream_t stream) {
  ExpertsJob job;
  job.args = args;
  job.workspace = experts_workspace_view(args.workspace, args.shape, args.plan.top_k, args.plan.rows);
  job.gate_up = gate_up_layout(args.shape);
  job.down = down_layout(args.shape);
  job.activation_stride = activation_stride(args.shape);
  job.sums_here = args.plan.rows <= kMaxSumRows;
  static const unsigned blocks = multiprocessors();
  launch("experts", experts_kernel, Shape{dim3(blocks), dim3(kThreads), sizeof(ExpertsShared)}, stream,
         Overlap::kPrevious, job);
  if (!job.sums_here)
    launch("experts: weighted sum", add_slots_kernel, Shape{dim3(args.plan.rows), dim3(256)}, stream,
           Overlap::kPrevious, job);
}

}  // namespace lynx::cuda
