// The expert kernel: one persistent block a multiprocessor; eight warps of consumers, a planner, two
// producers and a teller.
#include "kernels/cuda/experts.h"

#include "kernels/cuda/experts_consumer.cuh"
#include "kernels/cuda/experts_producers.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"

namespace lynx::cuda {
namespace {

constexpr std::uint32_t kThreads = kConsumers + 4 * kWarp;
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
  if (threadIdx.x == 0) {
    init_rings(s.tasks, s.ring);
    init_outputs(s.outputs);
  }
  release_dependents();
  grid_dependency_wait();
  build_tables(job, s.tables);
  switch (threadIdx.x / kWarp) {
    case kPlanner:
      return plan_tasks(job, s.tables, s.tasks);
    case kWeights:
      if (threadIdx.x % kWarp == 0) produce_weights(job, s.tasks, s.ring);
      return;
    case kInputs:
      return produce_inputs(job, s.tables, s.tasks, s.ring);
    case kTeller:
      tell(job, s.tables, s.tasks, s.outputs);
      break;
    default:
      Consumer(job, s.tasks, s.ring, s.outputs).run();
  }
  sync_threads<kFinisherBarrier>(kFinishers);
  add_finished(job, s.outputs);
}

// For batches whose sum is too much for the tail of the kernel: a thread sums four outputs of one row.
__global__ void __launch_bounds__(256) add_slots_kernel(const __grid_constant__ ExpertsJob job) {
  grid_dependency_wait();
  for (std::uint32_t column = threadIdx.x * 4; column < job.args.shape.hidden; column += blockDim.x * 4)
    add_slots(job, blockIdx.x, column);
}

ExpertsJob make_job(const ExpertsArgs& args) {
  return {.args = args,
          .workspace = experts_workspace_view(args.workspace, args.shape, args.plan.top_k, args.plan.rows),
          .gate_up = gate_up_layout(args.shape),
          .down = down_layout(args.shape),
          .activation_stride = activation_stride(args.shape),
          .sums_here = args.plan.rows <= kMaxSumRows};
}

}  // namespace

void experts_add(const ExpertsArgs& args, cudaStream_t stream) {
  if (args.prompt && has_prompt_kernels()) return experts_add_prompt(args, stream);
  if (args.kernels == KernelSet::kPortable) return experts_add_portable(args, stream);
  const ExpertsJob job = make_job(args);
  static const unsigned blocks = multiprocessors();
  launch("experts", experts_kernel, Shape{dim3(blocks), dim3(kThreads), sizeof(ExpertsShared)}, stream,
         Overlap::kPrevious, job);
  if (!job.sums_here)
    launch("experts: weighted sum", add_slots_kernel, Shape{dim3(args.plan.rows), dim3(256)}, stream,
           Overlap::kPrevious, job);
}

}  // namespace lynx::cuda
