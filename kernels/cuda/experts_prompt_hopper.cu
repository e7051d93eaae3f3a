// The experts of prompts on Hopper: two grouped matrix products by wgmma, gate-up and down, between the rows'
// inputs in the order of the fragments and the sum of each row's slots.
//
// Persistent blocks claim tiles of 256 outputs of one active expert by up to 160 of its rows. A warpgroup
// fills a ring of kStages steps of 64 inputs: weights by bulk copies, 32 KiB a step, gathered rows by
// asynchronous copies, 2 KiB for each 16 rows. Two warpgroups multiply 128 outputs each by all rows: weights
// go from a stage into registers, since they are packed as the fragments are (experts_layout.h), rows are
// read where they lie. An output is one chain of multiply-adds over rising blocks of inputs: a row's bits
// depend neither on how many rows a prompt has nor on how they are cut into tiles.
#include "kernels/cuda/experts_prompt_hopper.h"
#include "kernels/cuda/experts_prompt_products.cuh"
#include "kernels/cuda/experts_prompt_rows.h"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace {

using namespace hopper_prompt;

// What of the plan says where the tiles of rows are. One warp.
__device__ void copy_plan(const DevicePlan& plan, Shared& s) {
  const std::uint32_t experts = count_row_tiles<kMostRows>(plan, s.first, [&](std::uint32_t i) {
    s.active[i] = plan.active[i];
    s.offsets[i] = plan.offsets[i];
  });
  if (threadIdx.x == 0) {
    s.offsets[experts] = plan.offsets[experts];
    s.experts = experts;
  }
}

__device__ void init_barriers(Shared& s) {
  for (unsigned i = 0; i < kStages; ++i) {
    barrier_init(s.full[i], 1 + kWarpgroup);
    barrier_init(s.empty[i], kConsumers / kWarp);
  }
  for (unsigned i = 0; i < kClaims; ++i) barrier_init(s.told[i], 1);
  publish_barriers();
}

template <bool kDown>
__global__ void __launch_bounds__(kThreads, 1) prompt_kernel(const __grid_constant__ Job job) {
  extern __shared__ __align__(1024) std::byte memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  release_dependents();
  if (threadIdx.x == kWarp) init_barriers(s);
  // The plan is there: order_rows has waited for it before it let this kernel, and so the next, be launched.
  // So weights come while the kernel before still runs; who brings rows waits for it.
  if (threadIdx.x < kWarp) copy_plan(job.args.plan, s);
  __syncthreads();
  // As many registers as the launch gave: 384 x 168 = 128 x 56 + 256 x 224, of 65,536.
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    bring_stages<kDown>(job, s);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    multiply_tiles<kDown>(job, s);
  }
}

}  // namespace

void experts_add_prompt_hopper(const ExpertsArgs& args, cudaStream_t stream) {
  const ExpertsWorkspace workspace =
      experts_workspace_view(args.workspace, args.shape, args.plan.top_k, args.plan.rows);
  std::uint32_t* counters = workspace.gate_up_done;  // two words, of a use that prompts have not
  Job job{gate_up_job(args), counters};
  // The rows in their new order lie where the down products will write.
  auto* rows = reinterpret_cast<std::uint16_t*>(job.partial);
  order_rows(args, rows, stream);
  job.args.x = rows;
  static const unsigned blocks = multiprocessors();
  const Shape shape{.grid = dim3(blocks), .block = dim3(kThreads), .shared_bytes = sizeof(Shared)};
  launch("experts of prompts: gate-up", prompt_kernel<false>, shape, stream, Overlap::kPrevious, job);
  job.matrix = down_layout(args.shape);
  job.claimed = counters + 1;
  launch("experts of prompts: down", prompt_kernel<true>, shape, stream, Overlap::kPrevious, job);
  add_ordered_slots(args, reinterpret_cast<const Part*>(job.partial), counters, stream);
}

}  // namespace lynx::cuda
