// The experts of a lone row. Each has one row to multiply, and all of them the same row: so a slot of the
// row, and with it one expert, belongs to a run of blocks, which share out the expert's outputs evenly.
// Nothing is claimed. What a block streams depends on one expert alone, at which routing hints before the
// plan is there; and who needs another block's outputs reads them until they are there, and is told nothing.
//
// Two meetings are left: the blocks of a slot exchange activations, and the blocks that have the same outputs
// of all slots exchange these and sum each a part of them, in slot order. All blocks must be resident.
#include "kernels/cuda/experts_lone.h"

#include <algorithm>

#include "kernels/cuda/experts_lone_consumer.cuh"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace lone {
namespace {

constexpr std::uint32_t kThreads = kConsumers + kWarp;
static_assert(sizeof(Shared) <= 227 * 1024, "a block's shared memory on Hopper");

__global__ void __launch_bounds__(kThreads, 1) lone_row_kernel(const __grid_constant__ Job job) {
  extern __shared__ __align__(128) std::byte memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const auto start = static_cast<std::uint32_t>(clock());
  if (threadIdx.x == 0) {
    mark_now(job.args.timeline, ExpertsMark::kStart);
#pragma unroll 1
    for (std::uint32_t i = 0; i < kWeightStages; ++i) {
      barrier_init(s.full[i], 1);
      barrier_init(s.empty[i], kConsumers);
    }
    barrier_init(s.begun, 1);
    barrier_init(s.planned, 1);
    barrier_init(s.tagged, 1);
    publish_barriers();
  }
  release_dependents();
  __syncthreads();
  const Place place(job);
  if (warp_index() == kConsumerWarps) {
    if (threadIdx.x % kWarp == 0) produce(job, place, s);
    return;
  }
  grid_dependency_wait();
  if (threadIdx.x == 0) mark_now(job.args.timeline, ExpertsMark::kReady);
  Consumer(job, place, s).run();
  if (threadIdx.x == 0 && job.args.timeline != nullptr) {
    mark_now(job.args.timeline, ExpertsMark::kEnd);
    set_mark(job.args.timeline, ExpertsMark::kCycles, static_cast<std::uint32_t>(clock()) - start);
  }
}

// The least uneven way to share a slot's work out: a block has something of either matrix.
struct Share {
  std::uint32_t blocks_of_slot = 0;
  double even = 0;  // bytes that the device reads, of those that it could while the busiest block reads
};
Share share_out(const MatrixLayout& gate_up, const MatrixLayout& down, std::uint32_t top_k) {
  const std::uint32_t all = multiprocessors();
  const double work = gate_up.unit_rows * gate_up.unit_cols + down.unit_rows * down.unit_cols;
  Share best;
  for (std::uint32_t n = std::min({all / top_k, gate_up.unit_rows, down.unit_rows}); n > 0; --n) {
    const std::uint32_t busiest =
        ceil_div(gate_up.unit_rows, n) * gate_up.unit_cols + ceil_div(down.unit_rows, n) * down.unit_cols;
    const double even = work * top_k / (double{1} * busiest * all);
    if (even > best.even) best = {n, even};
  }
  return best;
}

}  // namespace
}  // namespace lone

bool lone_row_takes(const ExpertsArgs& args) {
  const ExpertShape& s = args.shape;
  if (args.plan.rows != 1 || shares_multiprocessors() || s.hidden % kUnitInputs != 0 ||
      s.intermediate % kUnitInputs != 0 || s.hidden > lone::kMostHidden ||
      s.intermediate > lone::kMostIntermediate)
    return false;
  const MatrixLayout gate_up = gate_up_layout(s), down = down_layout(s);
  const lone::Share share = lone::share_out(gate_up, down, args.plan.top_k);
  const std::uint32_t n = share.blocks_of_slot;
  return share.even >= 0.9 && down.parts == 1 &&
         ceil_div(down.unit_rows, n) * kUnitOutputs <= lone::kMostOutputs &&
         ceil_div(ceil_div(down.unit_rows, n) * kUnitOutputs, args.plan.top_k) <= kConsumers &&
         gate_up.unit_cols + down.unit_cols > lone::kWeightStages;
}

void experts_add_lone_row(const ExpertsArgs& args, cudaStream_t stream) {
  const ExpertsWorkspace workspace = experts_workspace_view(args.workspace, args.shape, args.plan.top_k, 1);
  const MatrixLayout gate_up = gate_up_layout(args.shape), down = down_layout(args.shape);
  const std::uint32_t n = lone::share_out(gate_up, down, args.plan.top_k).blocks_of_slot;
  const lone::Job job{.args = args,
                      .gate_up = gate_up,
                      .down = down,
                      .blocks_of_slot = n,
                      .blocks = workspace.lone_blocks,
                      .activations = workspace.lone_activations,
                      .outputs = workspace.lone_outputs};
  launch("experts of a lone row", lone::lone_row_kernel,
         Shape{dim3(n * args.plan.top_k), dim3(lone::kThreads), sizeof(lone::Shared)}, stream,
         Overlap::kPrevious, job);
}

}  // namespace lynx::cuda
