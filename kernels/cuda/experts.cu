// The expert kernel: persistent blocks, one a multiprocessor; eight warps of consumers, a planner, two
// producers and a teller, who before there is anything to tell has weights brought nearer.
#include "kernels/cuda/experts.h"

#include "kernels/cuda/experts_consumer.cuh"
#include "kernels/cuda/experts_lone.h"
#include "kernels/cuda/experts_producers.cuh"
#include "kernels/cuda/experts_prompt_hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/route_shared.cuh"

namespace lynx::cuda {
namespace {

constexpr std::uint32_t kThreads = kConsumers + 4 * kWarp;

// Of gate-up weights that are sure to be needed, so many bytes come into L2 before the plan is there. Memory
// could give twice as many in this time, but more have brought nothing more.
constexpr std::uint32_t kAheadBytes = 12U << 20;
constexpr std::uint32_t kMaxSumRows = 64;  // more rows: a launch of its own sums them

// Warps 0 to 7 are consumers.
enum Role : std::uint32_t { kPlanner = kConsumerWarps, kWeights, kInputs, kTeller };

struct ExpertsShared {
  StageRing ring;
  TaskRing tasks;
  OutputShared outputs;
  TaskTables tables;
};
static_assert(sizeof(ExpertsShared) <= 227 * 1024, "a block's shared memory on Hopper");

__global__ void __launch_bounds__(kThreads, 1) experts_kernel(const __grid_constant__ ExpertsJob job) {
  extern __shared__ __align__(128) std::byte memory[];
  ExpertsShared& s = *reinterpret_cast<ExpertsShared*>(memory);
  const auto start = static_cast<std::uint32_t>(clock());
  if (threadIdx.x == 0) {
    mark_experts(job, ExpertsMark::kStart);
    init_rings(s.tasks, s.ring);
    init_outputs(s.outputs);
  }
  release_dependents();
  __syncthreads();
  const std::uint32_t role = warp_index();
  if (role == kTeller) WeightsAhead(job).run(s.tasks.located[0]);
  if (role == kPlanner) return Planner(job, s.tables, s.tasks).run();
  grid_dependency_wait();
  if (threadIdx.x == 0) mark_experts(job, ExpertsMark::kReady);
  switch (role) {
    case kWeights:
      if (threadIdx.x % kWarp == 0) produce_weights(job, s.tasks, s.ring);
      return;
    case kInputs:
      return produce_inputs(job, s.tasks, s.ring);
    case kTeller:
      Teller(job, s.tables, s.tasks, s.outputs).run();
      break;
    default:
      Consumer(job, s.tasks, s.ring, s.outputs).run();
  }
  const std::uint32_t left = role == kTeller ? count_leaving(job) : 0;
  sync_threads(kFinisherBarrier, kFinishers);
  add_finished(job, s.outputs);
  if (role == kTeller) leave(job, s.tables.experts, left);
  if (threadIdx.x == 0) {
    mark_experts(job, ExpertsMark::kEnd);
    mark_sum(job, ExpertsMark::kCycles, static_cast<std::uint32_t>(clock()) - start);
  }
}

// For batches whose sum is too much for the tail of the kernel: a thread sums four outputs of one row.
__global__ void __launch_bounds__(256) add_slots_kernel(const __grid_constant__ ExpertsJob job) {
  grid_dependency_wait();
  for (std::uint32_t column = threadIdx.x * 4; column < job.args.shape.hidden; column += blockDim.x * 4)
    add_slots(job, blockIdx.x, column);
}

// All multiprocessors but those on which the next layer's routing can lie from early on, and no block of the
// next launch has to wait for it to leave. Memory is as busy without them.
unsigned blocks_of_launch(std::uint32_t rows) {
  static const unsigned all = multiprocessors();
  const unsigned spare = rows <= kMaxRouteRows ? route_blocks(rows) : 0;
  return all > 2 * spare ? all - spare : all;
}

ExpertsJob make_job(const ExpertsArgs& args) {
  const MatrixLayout gate_up = gate_up_layout(args.shape);
  const MatrixLayout down = down_layout(args.shape);
  const unsigned blocks = blocks_of_launch(args.plan.rows);
  return {.args = args,
          .workspace = experts_workspace_view(args.workspace, args.shape, args.plan.top_k, args.plan.rows),
          .gate_up = gate_up,
          .down = down,
          .activation_stride = activation_stride(args.shape),
          .small_downs = (2 * blocks + down.unit_rows) / (down.unit_rows * down.parts),
          .ahead_slice = ceil_div(gate_up.unit_rows * gate_up.unit_cols, blocks) * kUnitBytes,
          .ahead_bytes = kAheadBytes / blocks / kUnitBytes * kUnitBytes,
          .sums_here = args.plan.rows <= kMaxSumRows};
}

}  // namespace

void experts_add(const ExpertsArgs& args, cudaStream_t stream) {
  if (args.prompt && args.kernels == KernelSet::kHopper) return experts_add_prompt_hopper(args, stream);
  if (args.prompt && has_prompt_kernels()) return experts_add_prompt(args, stream);
  if (args.kernels == KernelSet::kPortable) return experts_add_portable(args, stream);
  if (lone_row_takes(args)) return experts_add_lone_row(args, stream);
  const ExpertsJob job = make_job(args);
  launch("experts", experts_kernel,
         Shape{dim3(blocks_of_launch(args.plan.rows)), dim3(kThreads), sizeof(ExpertsShared)}, stream,
         Overlap::kPrevious, job);
  if (!job.sums_here)
    launch("experts: weighted sum", add_slots_kernel, Shape{dim3(args.plan.rows), dim3(256)}, stream,
           Overlap::kPrevious, job);
}

}  // namespace lynx::cuda
