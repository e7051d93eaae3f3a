// The pieces of skinny_gemm.cu: weights on their way, rows in shared memory, sums across a cluster.
//
// Fragments: rows are the [16, k] operand, weights the [k, 8] one. The sum over k does not care in which
// order k meets the slots of an instruction, as long as both operands agree: lane 4 g + q takes 16 bytes, k =
// 8 q .. 8 q + 7 of 32, of output g, and its four registers are the operands of two instructions as they
// come.
#pragma once

#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/shared_memory.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::skinny {

inline constexpr unsigned kWarps = 8;
inline constexpr unsigned kThreads = kWarps * kWarp;
inline constexpr unsigned kTile = 16;       // outputs of a warp at a time
inline constexpr unsigned kSlice = 64;      // k of two such loads
inline constexpr unsigned kAhead = 4;       // slices in flight of each warp
inline constexpr unsigned kStep = 32;       // k of 16 bytes a lane
inline constexpr unsigned kMaxCluster = 8;  // what every device allows

// k of one block. Small matrices are cut finer, to have more of them read at once.
inline unsigned block_k_of(std::uint64_t n, unsigned k) {
  constexpr std::uint64_t kSmall = std::uint64_t{1} << 21;
  return n * k < kSmall && k <= kMaxCluster * kAhead * kSlice ? kAhead * kSlice : 2 * kAhead * kSlice;
}

struct Slice {  // 64 k of 16 outputs, of which this lane holds those of outputs g and g + 8
  uint4 low[2], high[2];
};

// Where this lane's weights of a tile begin. Outputs past the last repeat it; their sums are dropped.
struct TileCursor {
  const std::uint16_t* low;
  const std::uint16_t* high;
  int left;  // k from there to the end of the matrix

  __device__ void start(const GemmParams& p, unsigned tile, unsigned k) {
    const unsigned output = tile * kTile + threadIdx.x % kWarp / 4;
    const unsigned at = k + threadIdx.x % 4 * 8;
    low = p.weights + std::size_t{min(output, p.n - 1)} * p.k + at;
    high = p.weights + std::size_t{min(output + 8, p.n - 1)} * p.k + at;
    left = static_cast<int>(p.k) - static_cast<int>(at);
  }
  __device__ void advance(unsigned k) {
    low += k;
    high += k;
    left -= static_cast<int>(k);
  }
  __device__ Slice load(unsigned k) const {
    Slice s;
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const bool inside = static_cast<int>(k + i * 32) < left;
      s.low[i] = inside ? load_weight(low + k + i * 32) : uint4{};
      s.high[i] = inside ? load_weight(high + k + i * 32) : uint4{};
    }
    return s;
  }
};

// Asks L2 for k [begin, end) of a tile: one line is one slice of one output.
__device__ inline void prefetch_slices(const GemmParams& p, unsigned tile, unsigned begin, unsigned end) {
  const unsigned slices = (end - begin) / kSlice;
  for (unsigned i = threadIdx.x % kWarp; i < kTile * slices; i += kWarp) {
    const unsigned output = tile * kTile + i / slices;
    const unsigned k = begin + i % slices * kSlice;
    if (output < p.n && k < p.k)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weights + std::size_t{output} * p.k + k));
  }
}

// Rows g and g + 8 of a tile, 8 k of each. step: 32 k of the tile's.
__device__ inline void store_fragments(uint4* tile, unsigned step, const uint4& low, const uint4& high) {
  uint4* pair = tile + step * 2 * kWarp + threadIdx.x % kWarp;
  pair[0] = {low.x, high.x, low.y, high.y};
  pair[kWarp] = {low.z, high.z, low.w, high.w};
}

// This block's k of every row into shared memory, as fragments [row tiles][part_k / 16][lanes]; zeros for
// padding and past the end.
template <unsigned kRowTiles>
__device__ void load_rows(uint4* to, const GemmParams& p, unsigned live, unsigned first_k) {
  const unsigned steps = p.part_k / kStep;
  for (unsigned i = threadIdx.x; i < kRowTiles * steps * kWarp; i += kThreads) {
    const unsigned lane = i % kWarp;
    const unsigned row = i / (steps * kWarp) * 16 + lane / 4;
    const unsigned k = first_k + i / kWarp % steps * kStep + lane % 4 * 8;
    const std::uint16_t* from = p.x + row * p.x_stride + k;
    const uint4 low = row < live && k < p.k ? *reinterpret_cast<const uint4*>(from) : uint4{};
    const uint4 high =
        row + 8 < live && k < p.k ? *reinterpret_cast<const uint4*>(from + 8 * p.x_stride) : uint4{};
    store_fragments(to, i / kWarp, low, high);
  }
}

// What a tile's products add up to: two chains, for the 32 k of a slice that come first and second, so that
// an instruction waits for the one before the last.
template <unsigned kRowTiles>
struct TileSums {
  float chain[2][kRowTiles][2][4] = {};  // rows 16 t .. with outputs 8 h .. of the tile
  __device__ float at(unsigned t, unsigned h, unsigned i) const {
    return chain[0][t][h][i] + chain[1][t][h][i];
  }
};

// x: the fragments of the slice for this lane; tile_stride: from one row tile to the next.
template <unsigned kRowTiles>
__device__ void multiply(TileSums<kRowTiles>& sums, const Slice& w, const uint4* x, unsigned tile_stride) {
#pragma unroll
  for (unsigned t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      auto& sum = sums.chain[i][t];
      const uint4 a = x[t * tile_stride + 2 * i * kWarp];
      mma_16816(sum[0], a.x, a.y, a.z, a.w, w.low[i].x, w.low[i].y);
      mma_16816(sum[1], a.x, a.y, a.z, a.w, w.high[i].x, w.high[i].y);
      const uint4 b = x[t * tile_stride + (2 * i + 1) * kWarp];
      mma_16816(sum[0], b.x, b.y, b.z, b.w, w.low[i].z, w.low[i].w);
      mma_16816(sum[1], b.x, b.y, b.z, b.w, w.high[i].z, w.high[i].w);
    }
  }
}

// Where output o of a row lies among a tile's sums: fragments' stores meet no bank twice, and four
// consecutive outputs stay together.
__device__ inline unsigned place(unsigned row, unsigned output) {
  return row * kTile + (output ^ (row / 2 % 2 * 8));
}

// use(place, sum of an output, sum of the next one) for all that the lane holds.
template <unsigned kRowTiles, typename Use>
__device__ void each_sum(const TileSums<kRowTiles>& sums, const Use& use) {
  const unsigned g = threadIdx.x % kWarp / 4;
  const unsigned q = threadIdx.x % 4;
#pragma unroll
  for (unsigned t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const unsigned row = t * 16 + g;
      use(place(row, 8 * h + 2 * q), sums.at(t, h, 0), sums.at(t, h, 1));
      use(place(row + 8, 8 * h + 2 * q), sums.at(t, h, 2), sums.at(t, h, 3));
    }
  }
}

template <unsigned kRowTiles>
__device__ void store_sums(float* to, const TileSums<kRowTiles>& sums) {
  each_sum<kRowTiles>(sums, [to](unsigned place, float a, float b) {
    *reinterpret_cast<float2*>(to + place) = {a, b};
  });
}

__device__ inline float4 load_remote(const float* address, unsigned block) {
  float4 v;
  asm volatile(
      "{ .reg .u32 remote; mapa.shared::cluster.u32 remote, %4, %5;"
      " ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [remote]; }"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(shared_address(address)), "r"(block)
      : "memory");
  return v;
}

__device__ inline void cluster_sync(unsigned blocks) {
  if (blocks == 1) {
    __syncthreads();
    return;
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// The sums of all blocks, in their order.
__device__ inline float4 add_blocks(const float* address, unsigned blocks) {
  constexpr unsigned kAtOnce = 4;
  if (blocks == 1) return *reinterpret_cast<const float4*>(address);
  float4 sum = {};
  for (unsigned first = 0; first < blocks; first += kAtOnce) {
    float4 part[kAtOnce];
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i)
      part[i] = first + i < blocks ? load_remote(address, first + i) : float4{};
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      sum.x += part[i].x;
      sum.y += part[i].y;
      sum.z += part[i].z;
      sum.w += part[i].w;
    }
  }
  return sum;
}

// Four consecutive outputs of a row, those below n.
template <typename Out>
__device__ void store4(const GemmParams& p, unsigned row, unsigned output, float4 sum) {
  Out* to = reinterpret_cast<Out*>(p.out) + row * p.out_stride + output;
  const float values[4] = {sum.x, sum.y, sum.z, sum.w};
  constexpr bool kFloats = sizeof(Out) == sizeof(float);
  if (kFloats && output + 4 <= p.n && reinterpret_cast<std::uintptr_t>(to) % sizeof(float4) == 0) {
    auto* four = reinterpret_cast<float4*>(to);
    if (p.add) {
      const float4 old = *four;
      sum = {sum.x + old.x, sum.y + old.y, sum.z + old.z, sum.w + old.w};
    }
    *four = sum;
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    if (output + i >= p.n) return;
    float value = values[i];
    if constexpr (kFloats) {
      if (p.add) value += to[i];
    }
    store1(to + i, value);
  }
}

}  // namespace lynx::cuda::skinny
