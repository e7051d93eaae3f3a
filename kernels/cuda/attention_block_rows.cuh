// The inputs of attention_block.cu's products: rows as fragments in shared memory, a block's own k of them.
#pragma once

#include "kernels/cuda/block_product.cuh"
#include "kernels/cuda/row_squares.cuh"

namespace lynx::cuda::block {

inline constexpr unsigned kMaxRowTiles = 2;
inline constexpr unsigned kMaxRows = kMaxRowTiles * 16;
inline constexpr unsigned kMaxParts = kCluster * kMaxOwnParts;

struct NormShared {
  float of_group[kMaxOwnParts][kGroupsOfChunk][kMaxRows];
  float of_chunk[kMaxParts][kMaxRows];  // of the whole row: every block writes its own into all
};

using skinny::store_fragments;

// A lane's share of the norm's weights, which can be there before the rows.
struct NormWeights {
  float of[kMaxOwnParts][2][8];

  __device__ NormWeights(const float* weight, const Share& s) {
#pragma unroll
    for (unsigned part = 0; part < kMaxOwnParts; ++part) {
      if (part >= s.parts) break;
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) load8(of[part][i], weight + first_k(s) + part * kPartK + 32 * i);
    }
  }
  __device__ static unsigned first_k(const Share& s) {
    return s.first_part * kPartK + warp_index() * kSquareGroup + threadIdx.x % 4 * 8;
  }
};

// A lane's share of the rows: asked for when it is made, normed when all blocks of the cluster have theirs.
// Warp w has 64 k of each part, lane 4 g + q rows g and g + 8 of each tile and k = 32 i + 8 q ..
template <unsigned kRowTiles>
struct HiddenRows {
  float of[kMaxOwnParts][kRowTiles][2][2][8];  // [part][tile][row g or g + 8][step]

  // x [rows, k] f32. Rows past the last live one may hold anything.
  __device__ HiddenRows(const float* x, std::size_t stride, const Share& s, unsigned rows) {
    const float* from = x + threadIdx.x % kWarp / 4 * stride + NormWeights::first_k(s);
#pragma unroll
    for (unsigned part = 0; part < kMaxOwnParts; ++part) {
#pragma unroll
      for (unsigned r = 0; r < kRowTiles * 2; ++r) {
        const bool exists = part < s.parts && r * 8 + threadIdx.x % kWarp / 4 < rows;
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
          float(&to)[8] = of[part][r / 2][r % 2][i];
          if (exists) {
            load8(to, from + r * 8 * stride + part * kPartK + 32 * i);
          } else {
#pragma unroll
            for (float& f : to) f = 0;
          }
        }
      }
    }
  }
};

// The rows normed, as fragments. What rows past the live ones hold reaches no other row. have_come: called by
// all threads when the block's rows have.
template <unsigned kRowTiles, typename HaveCome>
__device__ void store_normed_rows(uint4* to, NormShared& shared, Inbox& inbox, const Share& s,
                                  HiddenRows<kRowTiles>& rows, const NormWeights& weights, float eps,
                                  unsigned k, const HaveCome& have_come) {
  constexpr unsigned kRows = kRowTiles * 16;
  const unsigned warp = warp_index();
  const unsigned g = threadIdx.x % kWarp / 4;
  auto& v = rows.of;
#pragma unroll
  for (unsigned part = 0; part < kMaxOwnParts; ++part) {
    if (part >= s.parts) break;
#pragma unroll
    for (unsigned r = 0; r < kRowTiles * 2; ++r) {
      const float sum = squares_of_group(v[part][r / 2][r % 2]);
      if (threadIdx.x % 4 == 0) shared.of_group[part][warp][r * 8 + g] = sum;
    }
  }
  sync_threads(kComputeBarrier, kComputeThreads);
  have_come();
  if (threadIdx.x < s.parts * kRows) {
    const unsigned part = threadIdx.x / kRows;
    const unsigned row = threadIdx.x % kRows;
    const float sum = squares_of_chunk([&](unsigned i) { return shared.of_group[part][i][row]; });
#pragma unroll
    for (unsigned rank = 0; rank < kCluster; ++rank)
      inbox.send(&shared.of_chunk[s.first_part + part][row], rank, sum);
  }
  inbox.await();
  float scale[kRowTiles * 2];
#pragma unroll
  for (unsigned r = 0; r < kRowTiles * 2; ++r) {
    float total = 0;
#pragma unroll 1
    for (unsigned chunk = 0; chunk < k / kPartK; ++chunk) total += shared.of_chunk[chunk][r * 8 + g];
    scale[r] = norm_scale(total, k, eps);
  }
#pragma unroll
  for (unsigned part = 0; part < kMaxOwnParts; ++part) {
    if (part >= s.parts) break;
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const auto& w = weights.of[part][i];
#pragma unroll
      for (unsigned t = 0; t < kRowTiles; ++t) {
        norm8(v[part][t][0][i], w, scale[2 * t]);
        norm8(v[part][t][1][i], w, scale[2 * t + 1]);
        store_fragments(to + (part * kRowTiles + t) * kFragments, 2 * warp + i, pack8(v[part][t][0][i]),
                        pack8(v[part][t][1][i]));
      }
    }
  }
  sync_threads(kComputeBarrier, kComputeThreads);
}

// x [live, k] bf16, which other blocks wrote: past L1.
template <unsigned kRowTiles>
__device__ void load_rows(uint4* to, const Share& s, const std::uint16_t* x, std::size_t stride,
                          unsigned live) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned items = s.parts * kRowTiles * kPartSteps;
#pragma unroll 4
  for (unsigned i = warp_index(); i < items; i += kWarps) {
    const unsigned step = i % kPartSteps;
    const unsigned tile = i / kPartSteps;  // part * kRowTiles + row tile
    const unsigned row = tile % kRowTiles * 16 + lane / 4;
    const std::uint16_t* from =
        x + row * stride + (s.first_part + tile / kRowTiles) * kPartK + step * 32 + lane % 4 * 8;
    const uint4 low = row < live ? __ldcg(reinterpret_cast<const uint4*>(from)) : uint4{};
    const uint4 high = row + 8 < live ? __ldcg(reinterpret_cast<const uint4*>(from + 8 * stride)) : uint4{};
    store_fragments(to + tile * kFragments, step, low, high);
  }
  sync_threads(kComputeBarrier, kComputeThreads);
}

}  // namespace lynx::cuda::block
