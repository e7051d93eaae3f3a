// Decode's matrix product: few rows, so its time is that of reading the weights.
//
// A cluster of blocks shares out k. A warp takes a tile of 16 outputs, and streams its block's k of them from
// memory straight into matrix fragments, kAhead slices of 64 k ahead; the rows' fragments come from shared
// memory. After each round of tiles the blocks of the cluster add their sums in rising k, each block a share
// of the outputs. The order of a sum depends on (n, k) alone: see block_k_of.
#include <algorithm>
#include <array>
#include <atomic>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/skinny_gemm_parts.cuh"

namespace lynx::cuda {
namespace {

using namespace skinny;

// Shared memory: two rounds of sums if two blocks then still fit a multiprocessor, and the rows.
template <unsigned kRowTiles>
struct Memory {
  static constexpr unsigned kRows = kRowTiles * 16;
  static constexpr unsigned kRounds = kRowTiles <= 2 ? 2 : 1;
  static constexpr unsigned kSums = kWarps * kRows * kTile;  // floats of a round
  static std::size_t bytes(unsigned block_k) {
    return kRounds * kSums * sizeof(float) + std::size_t{kRows} * block_k * sizeof(std::uint16_t);
  }
};

template <unsigned kRowTiles, typename Out>
__global__ void __launch_bounds__(kThreads, 2) skinny_gemm_kernel(const GemmParams p) {
  using Sizes = Memory<kRowTiles>;
  extern __shared__ __align__(16) std::byte memory[];
  release_dependents();
  auto* sums = reinterpret_cast<float*>(memory);  // [rounds][warps][rows * 16]
  auto* rows = reinterpret_cast<uint4*>(sums + Sizes::kRounds * Sizes::kSums);
  unsigned rank;
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  const unsigned cluster = blockIdx.x / blocks;
  const unsigned clusters = gridDim.x / blocks;
  const unsigned all_tiles = (p.n + kTile - 1) / kTile;
  const auto begin = static_cast<unsigned>(std::uint64_t{all_tiles} * cluster / clusters);
  const auto end = static_cast<unsigned>(std::uint64_t{all_tiles} * (cluster + 1) / clusters);
  const unsigned warp = warp_index();
  const unsigned first_k = rank * p.part_k;

  // Slices on their way to a warp: with four tiles of rows there are no registers for more than two.
  constexpr unsigned kDepth = kRowTiles == 4 ? 2 : kAhead;
  constexpr unsigned kRound = kDepth * kSlice;
  Slice ahead[kDepth];
  TileCursor next;  // of the slices after those in `ahead`
  if (begin + warp < end) {
    next.start(p, begin + warp, first_k);
#pragma unroll
    for (unsigned i = 0; i < kDepth; ++i) ahead[i] = next.load(i * kSlice);
    prefetch_slices(p, begin + warp, first_k + kRound, first_k + p.part_k);
  }
  grid_dependency_wait();  // the weights above are no kernel's output
  const unsigned live = live_count(p.live_rows, p.rows);
  load_rows<kRowTiles>(rows, p, live, first_k);
  __syncthreads();
  constexpr unsigned kPerSlice = kSlice / 16 * kWarp;  // fragments
  const unsigned tile_stride = p.part_k / 16 * kWarp;

  unsigned round = 0;
  for (unsigned first = begin; first < end; first += kWarps, ++round) {
    const unsigned tile = first + warp;
    float* const round_sums = sums + round % Sizes::kRounds * Sizes::kSums;
    if (tile < end) {
      TileSums<kRowTiles> sum;
      const uint4* x = rows + threadIdx.x % kWarp;
      for (unsigned k = 0; k < p.part_k; k += kRound) {
        const bool last = k + kRound == p.part_k;
        const bool more = !last || tile + kWarps < end;
        if (last)
          next.start(p, tile + kWarps, first_k);
        else
          next.advance(kRound);
#pragma unroll
        for (unsigned i = 0; i < kDepth; ++i) {
          multiply<kRowTiles>(sum, ahead[i], x, tile_stride);
          x += kPerSlice;
          if (more) ahead[i] = next.load(i * kSlice);
        }
      }
      store_sums<kRowTiles>(round_sums + warp * Sizes::kRows * kTile, sum);
    }
    cluster_sync(blocks);
    constexpr unsigned kOfTile = Sizes::kRows * kTile / 4;  // groups of four outputs
    const unsigned groups = min(kWarps, end - first) * kOfTile;
    for (unsigned i = rank * kThreads + threadIdx.x; i < groups; i += blocks * kThreads) {
      const unsigned row = i % kOfTile / (kTile / 4);
      const unsigned output = i % (kTile / 4) * 4;
      if (row >= live) continue;
      const float4 all =
          add_blocks(round_sums + i / kOfTile * Sizes::kRows * kTile + place(row, output), blocks);
      store4<Out>(p, row, (first + i / kOfTile) * kTile + output, all);
    }
    if (Sizes::kRounds == 1) cluster_sync(blocks);  // else the next round's barrier is the one before reuse
  }
  if (Sizes::kRounds > 1 && blocks > 1) cluster_sync(blocks);  // the others may still read this block's sums
}

// How many clusters of this kernel the device holds at once: a cluster stays within a part of the chip, which
// may leave some multiprocessors over. Asked once per cluster size and k.
template <typename Kernel>
unsigned resident_clusters(Kernel kernel, const Shape& shape, bool fine) {
  static std::array<std::array<std::atomic<int>, kMaxCluster + 1>, 2> known;
  std::atomic<int>& entry = known[fine ? 1 : 0][shape.cluster];
  int count = entry.load(std::memory_order_relaxed);
  if (count == 0) {
    count = max_active_clusters("skinny_gemm", kernel, shape);
    entry.store(count, std::memory_order_relaxed);
  }
  return static_cast<unsigned>(count);
}

// The head of a model. Launched early, it takes 220 us instead of 154 in a step of 16 rows (151,936 x 2,048),
// and 363 instead of 162 in one of one row: its last blocks find their places late.
bool starts_alone(const GemmParams& p) {
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 25;  // weights
  return std::uint64_t{p.n} * p.k >= kLarge;
}

template <unsigned kRowTiles, typename Out>
void launch_tiles(const GemmParams& p, cudaStream_t stream) {
  const auto kernel = skinny_gemm_kernel<kRowTiles, Out>;
  const unsigned cluster = (p.k + p.part_k - 1) / p.part_k;
  const unsigned tiles = (p.n + kTile - 1) / kTile;
  Shape shape = {.grid = {cluster, 1, 1},
                 .block = {kThreads, 1, 1},
                 .shared_bytes = Memory<kRowTiles>::bytes(p.part_k),
                 .cluster = cluster};
  const unsigned resident = resident_clusters(kernel, shape, p.part_k == kAhead * kSlice);
  shape.grid.x = std::min(tiles, resident) * cluster;
  launch("skinny_gemm", kernel, shape, stream, starts_alone(p) ? Overlap::kNone : Overlap::kPrevious, p);
}

template <typename Out>
void launch_rows(const GemmParams& p, cudaStream_t stream) {
  if (p.rows <= 16) return launch_tiles<1, Out>(p, stream);
  if (p.rows <= 32) return launch_tiles<2, Out>(p, stream);
  launch_tiles<4, Out>(p, stream);
}

}  // namespace

bool skinny_gemm_takes(std::uint32_t n, std::uint32_t k) {
  return n > 0 && k > 0 && k % 8 == 0 && k <= kMaxCluster * 2 * kAhead * kSlice;
}

void skinny_gemm(const GemmArgs& a, cudaStream_t stream) {
  if (a.kernels == KernelSet::kPortable) return skinny_gemm_portable(a, stream);
  const GemmParams params = gemm_params(a, block_k_of(a.out.cols, a.x.cols));
  switch (a.out.dtype) {
    case Dtype::kF32:
      return launch_rows<float>(params, stream);
    case Dtype::kBf16:
      return launch_rows<__nv_bfloat16>(params, stream);
  }
}

}  // namespace lynx::cuda
