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
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"

namespace lynx::cuda {
namespace {

using namespace prompt;

// How many tiles of rows each active expert has, summed up. One warp.
__device__ void count_row_tiles(const Job& job, Shared& s) {
  const DevicePlan& plan = job.args.plan;
  const unsigned lane = threadIdx.x;
  const std::uint32_t experts = *plan.count;
  std::uint32_t before = 0;
  for (std::uint32_t base = 0; base < experts; base += kWarp) {
    const std::uint32_t i = base + lane;
    std::uint32_t sum = i < experts ? ceil_div(plan.offsets[i + 1] - plan.offsets[i], kMostRows) : 0;
#pragma unroll
    for (std::uint32_t step = 1; step < kWarp; step *= 2) {
      const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    if (i < experts) s.first[i + 1] = before + sum;
    before += __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
  if (lane == 0) {
    s.first[0] = 0;
    s.experts = experts;
  }
}

__device__ Tile tile_at(const Job& job, const Shared& s, std::uint32_t row_tile, std::uint32_t output_tile) {
  std::uint32_t low = 0;
  std::uint32_t high = s.experts;  // first[low] <= row_tile < first[high]
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (s.first[middle] <= row_tile ? low : high) = middle;
  }
  const DevicePlan& plan = job.args.plan;
  const std::uint32_t first_pair = plan.offsets[low];
  const std::uint32_t rows = plan.offsets[low + 1] - first_pair;
  // The expert's rows in even shares of whole groups of 8.
  const std::uint32_t groups = ceil_div(rows, kRowGroup);
  const std::uint32_t tiles = s.first[low + 1] - s.first[low];
  const std::uint32_t index = row_tile - s.first[low];
  const std::uint32_t begin = groups * index / tiles * kRowGroup;
  const std::uint32_t end = min(rows, groups * (index + 1) / tiles * kRowGroup);
  const std::uint32_t unit = output_tile * kUnits;
  return {.weights = job.args.packed + plan.active[low] * job.expert_bytes + job.matrix.expert_offset +
                     unit_offset(job.matrix, unit, 0),
          .unit = unit,
          .units = min(kUnits, job.matrix.unit_rows - unit),
          .first_pair = first_pair + begin,
          .rows = end - begin};
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
  if (threadIdx.x < kWarp) count_row_tiles(job, s);
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
