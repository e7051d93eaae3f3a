// The experts of prompts before Hopper, where many rows meet at each expert and arithmetic is what counts:
// two grouped matrix products, gate-up and down, and the sum of each row's slots.
//
// Persistent blocks go through tiles of 256 outputs of one active expert by up to 160 of its rows. Weights
// (in the order of the fragments: experts_layout.h) and gathered rows come into shared memory by asynchronous
// copies, kStages steps of 64 inputs in flight; eight warps multiply 64 outputs by half of the rows each.
// An output is one chain of multiply-adds over rising k: a row's bits depend neither on how many rows a
// prompt has nor on how they are cut into tiles.
#include <algorithm>

#include "kernels/cuda/experts_prompt_tile.cuh"
#include "kernels/cuda/experts_row_tiles.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"

namespace lynx::cuda {
namespace {

using namespace prompt;

__device__ Tile tile_at(const Job& job, const Shared& s, std::uint32_t row_tile, std::uint32_t output_tile) {
  const DevicePlan& plan = job.args.plan;
  const std::uint32_t expert = active_expert_of(s.first, s.experts, row_tile);
  const std::uint32_t first_pair = plan.offsets[expert];
  const std::uint32_t rows = plan.offsets[expert + 1] - first_pair;
  const RowShare share = row_share<kRowGroup>(rows, s.first + expert, row_tile);
  const std::uint32_t unit = output_tile * kUnits;
  return {.weights = job.args.packed + plan.active[expert] * job.expert_bytes + job.matrix.expert_offset +
                     unit_offset(job.matrix, unit, 0),
          .unit = unit,
          .units = min(kUnits, job.matrix.unit_rows - unit),
          .first_pair = first_pair + share.begin,
          .rows = share.end - share.begin};
}

template <bool kDown>
__device__ void run_tile(const Job& job, Shared& s, const Tile& tile) {
  const std::uint32_t groups = ceil_div(ceil_div(tile.rows, kRowGroup), kRowWarps);  // of a warp
  if (groups <= 2)
    multiply_tile<kDown, 2>(job, s, tile);
  else if (groups <= 4)
    multiply_tile<kDown, 4>(job, s, tile);
  else if (groups <= 6)
    multiply_tile<kDown, 6>(job, s, tile);
  else if (groups <= 8)
    multiply_tile<kDown, 8>(job, s, tile);
  else
    multiply_tile<kDown, 10>(job, s, tile);
}

template <bool kDown>
__global__ void __launch_bounds__(kThreads, 1) prompt_kernel(const __grid_constant__ Job job) {
  extern __shared__ __align__(128) std::byte memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  grid_dependency_wait();
  if (threadIdx.x < kWarp) {
    const std::uint32_t experts = count_row_tiles<kMostRows>(job.args.plan, s.first, [](std::uint32_t) {});
    if (threadIdx.x == 0) s.experts = experts;
  }
  __syncthreads();
  const std::uint32_t output_tiles = ceil_div(job.matrix.unit_rows, kUnits);
  const std::uint32_t tiles = s.first[s.experts] * output_tiles;
  for (std::uint32_t i = blockIdx.x; i < tiles; i += gridDim.x)
    run_tile<kDown>(job, s, tile_at(job, s, i / output_tiles, i % output_tiles));
}

}  // namespace

bool has_prompt_kernels() {
  static const bool has = [] {
    int device = 0;
    int bytes = 0;
    require(cudaGetDevice(&device), "cudaGetDevice");
    require(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            "cudaDeviceGetAttribute");
    return bytes >= static_cast<int>(sizeof(Shared));
  }();
  return has;
}

void experts_add_prompt(const ExpertsArgs& args, cudaStream_t stream) {
  Job job = gate_up_job(args);
  static const unsigned blocks = multiprocessors();
  const Shape shape{.grid = dim3(blocks), .block = dim3(kThreads), .shared_bytes = sizeof(Shared)};
  launch("experts of prompts: gate-up", prompt_kernel<false>, shape, stream, Overlap::kPrevious, job);
  job.matrix = down_layout(args.shape);
  launch("experts of prompts: down", prompt_kernel<true>, shape, stream, Overlap::kPrevious, job);
  add_slots_portable(args, job.partial, 1, stream);
}

}  // namespace lynx::cuda
