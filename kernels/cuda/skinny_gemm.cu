// Decode's matrix product: few rows, so its time is that of reading the weights.
//
// A cluster of blocks shares out k: each warp of each block owns 64 consecutive k and keeps its part of x, as
// matrix fragments, in registers for the whole kernel. Weights stream from memory straight into fragments,
// kAhead tiles of 16 outputs ahead: no shared memory on their way. Partial sums are added over the warps of a
// block, then over the blocks of the cluster, each in rising k.
//
// Fragments: the sum over k does not care in which order k meets the slots of an instruction, as long as both
// operands agree. Lane 4 g + q loads 16 bytes, k = 8 q .. 8 q + 7 of row g: two instructions' worth.
#include <algorithm>
#include <array>
#include <atomic>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kWarps = 8;
constexpr unsigned kThreads = kWarps * kWarp;
constexpr unsigned kTile = 16;  // outputs of one instruction
constexpr unsigned kStep = 32;  // k of two instructions: 16 bytes a lane
constexpr unsigned kSteps = 2;  // of a warp
constexpr unsigned kBlockK = kWarps * kSteps * kStep;
constexpr unsigned kMaxCluster = 8;  // what every device allows
constexpr unsigned kAhead = 4;       // tiles in flight
constexpr unsigned kGroup = 4;       // tiles between two exchanges within the cluster
constexpr unsigned kPadded = 20;     // floats of a row of 16, so that a fragment's stores meet no bank twice

struct Params {
  std::byte* out;
  std::size_t out_stride;
  const std::uint16_t* x;
  std::size_t x_stride;
  const std::uint16_t* weights;
  unsigned rows, n, k;
  bool add;
  const std::uint32_t* live_rows;
};

struct Weights {                    // of one warp: its 64 k of 16 outputs
  uint4 low[kSteps], high[kSteps];  // outputs g and g + 8
};

template <unsigned kRowTiles>
struct Shared {
  static constexpr unsigned kRows = kRowTiles * 8;
  float of_warp[2][kWarps][kRows][kPadded];
  float of_block[2][kGroup][kRows][kTile];
};

__device__ float read_remote(const float* address, unsigned block) {
  float value;
  asm volatile(
      "{ .reg .u32 remote; mapa.shared::cluster.u32 remote, %1, %2; ld.shared::cluster.f32 %0, [remote]; }"
      : "=f"(value)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(address))), "r"(block)
      : "memory");
  return value;
}

__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

__device__ Weights load_weights(const Params& p, unsigned tile, unsigned k) {
  const unsigned g = threadIdx.x % kWarp / 4;
  const std::uint16_t* low = p.weights + std::size_t{min(tile * kTile + g, p.n - 1)} * p.k + k;
  const std::uint16_t* high = p.weights + std::size_t{min(tile * kTile + g + 8, p.n - 1)} * p.k + k;
  Weights w;
#pragma unroll
  for (unsigned s = 0; s < kSteps; ++s) {
    const bool inside = k + s * kStep < p.k;
    w.low[s] = inside ? load_weight(low + s * kStep) : uint4{};
    w.high[s] = inside ? load_weight(high + s * kStep) : uint4{};
  }
  return w;
}

template <unsigned kRowTiles>
__device__ void load_rows(uint4 (&x)[kRowTiles][kSteps], const Params& p, unsigned live, unsigned k) {
  const unsigned g = threadIdx.x % kWarp / 4;
#pragma unroll
  for (unsigned t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      const unsigned row = t * 8 + g;
      const bool inside = row < live && k + s * kStep < p.k;
      x[t][s] = inside ? *reinterpret_cast<const uint4*>(p.x + row * p.x_stride + k + s * kStep) : uint4{};
    }
  }
}

// This warp's part of 16 outputs of every row, into shared memory.
template <unsigned kRowTiles>
__device__ void multiply(float (&to)[kRowTiles * 8][kPadded], const Weights& w,
                         const uint4 (&x)[kRowTiles][kSteps]) {
  const unsigned g = threadIdx.x % kWarp / 4;
  const unsigned q = threadIdx.x % 4;
#pragma unroll
  for (unsigned t = 0; t < kRowTiles; ++t) {
    float sum[4] = {};
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      mma_16816(sum, w.low[s].x, w.high[s].x, w.low[s].y, w.high[s].y, x[t][s].x, x[t][s].y);
      mma_16816(sum, w.low[s].z, w.high[s].z, w.low[s].w, w.high[s].w, x[t][s].z, x[t][s].w);
    }
    to[t * 8 + 2 * q][g] = sum[0];
    to[t * 8 + 2 * q + 1][g] = sum[1];
    to[t * 8 + 2 * q][g + 8] = sum[2];
    to[t * 8 + 2 * q + 1][g + 8] = sum[3];
  }
}

template <typename Out>
__device__ void store(const Params& p, unsigned row, unsigned output, float value) {
  Out* to = reinterpret_cast<Out*>(p.out) + row * p.out_stride + output;
  if constexpr (sizeof(Out) == sizeof(float)) {
    if (p.add) value += *to;
  }
  store1(to, value);
}

// Adds the blocks' sums of a group of tiles, each block of the cluster a share of them, and writes them out.
template <unsigned kRowTiles, typename Out>
__device__ void finish_group(const Params& p, const float (&sums)[kGroup][kRowTiles * 8][kTile],
                             unsigned first_tile, unsigned tiles, unsigned live, unsigned rank,
                             unsigned blocks) {
  if (blocks > 1)
    cluster_sync();
  else
    __syncthreads();
  constexpr unsigned kOfTile = kRowTiles * 8 * kTile;
  const float* all = &sums[0][0][0];
  for (unsigned i = rank * kThreads + threadIdx.x; i < tiles * kOfTile; i += blocks * kThreads) {
    const unsigned row = i % kOfTile / kTile;
    const unsigned output = (first_tile + i / kOfTile) * kTile + i % kTile;
    if (row >= live || output >= p.n) continue;
    float sum = blocks > 1 ? read_remote(all + i, 0) : all[i];
    for (unsigned b = 1; b < blocks; ++b) sum += read_remote(all + i, b);
    store<Out>(p, row, output, sum);
  }
}

template <unsigned kRowTiles, typename Out>
__global__ void __launch_bounds__(kThreads, kRowTiles <= 4 ? 2 : 1) skinny_gemm_kernel(const Params p) {
  extern __shared__ std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kRowTiles>*>(memory);
  unsigned rank;
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  const unsigned cluster = blockIdx.x / blocks;
  const unsigned clusters = gridDim.x / blocks;
  const unsigned all_tiles = (p.n + kTile - 1) / kTile;
  const auto begin = static_cast<unsigned>(std::uint64_t{all_tiles} * cluster / clusters);
  const auto end = static_cast<unsigned>(std::uint64_t{all_tiles} * (cluster + 1) / clusters);
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned k = rank * kBlockK + warp * kSteps * kStep + threadIdx.x % 4 * 8;

  Weights ahead[kAhead];
#pragma unroll
  for (unsigned a = 0; a < kAhead; ++a)
    if (begin + a < end) ahead[a] = load_weights(p, begin + a, k);

  grid_dependency_wait();  // the weights above are no kernel's output
  release_dependents();
  const unsigned live = live_count(p.live_rows, p.rows);
  uint4 x[kRowTiles][kSteps];
  load_rows<kRowTiles>(x, p, live, k);

  constexpr unsigned kOfTile = kRowTiles * 8 * kTile;
  for (unsigned first = begin; first < end; first += kAhead) {
#pragma unroll
    for (unsigned a = 0; a < kAhead; ++a) {
      const unsigned tile = first + a;
      if (tile >= end) break;
      multiply<kRowTiles>(shared.of_warp[a % 2][warp], ahead[a], x);
      if (tile + kAhead < end) ahead[a] = load_weights(p, tile + kAhead, k);
      __syncthreads();  // of_warp[a % 2] is written again two tiles on, past the next barrier
      float(&group)[kGroup][kRowTiles * 8][kTile] = shared.of_block[(first - begin) / kGroup % 2];
      for (unsigned i = threadIdx.x; i < kOfTile; i += kThreads) {
        float sum = 0;
#pragma unroll
        for (unsigned w = 0; w < kWarps; ++w) sum += shared.of_warp[a % 2][w][i / kTile][i % kTile];
        group[a][i / kTile][i % kTile] = sum;
      }
    }
    static_assert(kGroup == kAhead, "a group is one round of this loop");
    finish_group<kRowTiles, Out>(p, shared.of_block[(first - begin) / kGroup % 2], first,
                                 min(kAhead, end - first), live, rank, blocks);
  }
  if (blocks > 1) cluster_sync();  // the others may still read this block's sums
}

unsigned cluster_of(unsigned k) { return (k + kBlockK - 1) / kBlockK; }

// How many clusters of this kernel the device holds at once: a cluster stays within a part of the chip, which
// may leave some multiprocessors over. Asked once.
template <typename Kernel>
unsigned resident_clusters(Kernel kernel, const Shape& shape) {
  static std::array<std::atomic<int>, kMaxCluster + 1> known;
  int count = known[shape.cluster].load(std::memory_order_relaxed);
  if (count == 0) {
    count = max_active_clusters("skinny_gemm", kernel, shape);
    known[shape.cluster].store(count, std::memory_order_relaxed);
  }
  return static_cast<unsigned>(count);
}

template <unsigned kRowTiles, typename Out>
void launch_tiles(const Params& p, cudaStream_t stream) {
  const auto kernel = skinny_gemm_kernel<kRowTiles, Out>;
  const unsigned cluster = cluster_of(p.k);
  const unsigned tiles = (p.n + kTile - 1) / kTile;
  Shape shape = {.grid = {cluster, 1, 1},
                 .block = {kThreads, 1, 1},
                 .shared_bytes = sizeof(Shared<kRowTiles>),
                 .cluster = cluster};
  shape.grid.x = std::min(tiles, resident_clusters(kernel, shape)) * cluster;
  launch("skinny_gemm", kernel, shape, stream, Overlap::kPrevious, p);
}

template <typename Out>
void launch_rows(const Params& p, cudaStream_t stream) {
  if (p.rows <= 8) return launch_tiles<1, Out>(p, stream);
  if (p.rows <= 16) return launch_tiles<2, Out>(p, stream);
  if (p.rows <= 32) return launch_tiles<4, Out>(p, stream);
  launch_tiles<8, Out>(p, stream);
}

}  // namespace

bool skinny_gemm_takes(std::uint32_t n, std::uint32_t k) {
  return n > 0 && k > 0 && k % 8 == 0 && cluster_of(k) <= kMaxCluster;
}

void skinny_gemm(const GemmArgs& a, cudaStream_t stream) {
  const Params params = {.out = a.out.data,
                         .out_stride = a.out.stride,
                         .x = reinterpret_cast<const std::uint16_t*>(a.x.data),
                         .x_stride = a.x.stride,
                         .weights = a.weights,
                         .rows = a.x.rows,
                         .n = a.out.cols,
                         .k = a.x.cols,
                         .add = a.add,
                         .live_rows = a.live_rows};
  switch (a.out.dtype) {
    case Dtype::kF32:
      return launch_rows<float>(params, stream);
    case Dtype::kBf16:
      return launch_rows<__nv_bfloat16>(params, stream);
  }
}

}  // namespace lynx::cuda
