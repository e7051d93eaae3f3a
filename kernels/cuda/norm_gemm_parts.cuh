// The pieces of norm_gemm.cu: what a thread has of a block's share, and rows on their way from f32 to
// fragments.
#pragma once

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/row_squares.cuh"
#include "kernels/cuda/skinny_gemm_parts.cuh"

namespace lynx::cuda::norm {

using skinny::kMaxCluster;
using skinny::kSlice;
using skinny::kStep;
static_assert(kSlice == kSquareGroup, "a warp's k are one slice of the product and one group of squares");

inline constexpr unsigned kRows = 16;             // of a cluster
inline constexpr unsigned kPairs = 8;             // of rows g and g + 8
inline constexpr unsigned kUnit = 8;              // outputs of a matrix instruction
inline constexpr unsigned kPairSums = 2 * kUnit;  // of a unit and two rows: [two outputs][row][output]
inline constexpr unsigned kChains = 2;            // of a block's sums, see skinny::TileSums

struct Params {
  float* out;
  std::uint16_t* normed;
  const float* x;
  const float* norm_weight;
  const std::uint16_t* weights;
  const std::uint32_t* live_rows;
  unsigned out_stride, normed_stride, x_stride;
  unsigned rows, n, k;
  float eps;
  unsigned blocks;       // of a cluster that have rows
  unsigned pairs, more;  // of rows, which every block adds up; how many blocks have one more
};

// kGroups: of 64 k, a warp each. kUnits: of a warp, in one chain.
template <unsigned kGroups, unsigned kUnits>
struct Block {
  static constexpr unsigned kThreads = kGroups * kWarp;
  static constexpr unsigned kUnitsOfAll = kGroups / kChains * kUnits;
  static constexpr unsigned kSums = kUnitsOfAll * kPairSums;
  static constexpr unsigned kChunks = kMaxCluster * kGroups / kGroupsOfChunk;
  static constexpr unsigned kParts = 14;  // blocks times pairs that one adds up, at most: seven times two

  Inbox squares, sums;
  // [chunk][group][row g, row g + 8]; chunks lie 8 banks further each, for four lanes read four at once.
  float of_group[kChunks][kGroupsOfChunk * kRows + 8];
  uint4 rows[kGroups * kSlice / kStep * 2 * kWarp];  // fragments, see skinny_gemm_parts.cuh
  float parts[kParts][kChains][kSums];               // [pair, block]
};

// What a thread has of a cluster's rows and outputs.
struct Share {
  unsigned rank, warp, g, q;
  unsigned row;    // g of the cluster's: this one and the eighth after it
  unsigned group;  // of 64 k
  unsigned k;      // eight from here, and 32 further
  unsigned chain;

  __device__ explicit Share(unsigned groups)
      : rank(blockIdx.x),
        warp(warp_index()),
        g(threadIdx.x % kWarp / 4),
        q(threadIdx.x % 4),
        row(blockIdx.z * kRows + g),
        group(rank * groups + warp),
        k(group * kSlice + q * 8),
        chain(warp % kChains) {}
};

// Rows past the last one are zeros; those past the last live one may hold anything.
struct Rows {
  float of[2][2][8];  // [row g or g + 8][step]
  __device__ Rows(const Params& p, const Share& s) {
#pragma unroll
    for (unsigned r = 0; r < 2; ++r) {
      const unsigned row = s.row + r * kPairs;
      const float* from = p.x + row * p.x_stride + s.k;
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        if (row < p.rows) {
          load8(of[r][i], from + i * kStep);
        } else {
#pragma unroll
          for (float& f : of[r][i]) f = 0;
        }
      }
    }
  }
};

// The squares of rows g and g + 8, from those of all groups, in the order of row_squares.cuh: a lane of four
// adds up every fourth chunk.
template <unsigned kChunks, unsigned kStride>
__device__ float2 add_squares(const float (&of_group)[kChunks][kStride], unsigned groups, const Share& s) {
  float2 chunk[kChunks / 4];
#pragma unroll
  for (unsigned c = 0; c < kChunks / 4; ++c) {
    const unsigned at = c * 4 + s.q;
    float2 v[kGroupsOfChunk];
#pragma unroll
    for (unsigned i = 0; i < kGroupsOfChunk; ++i)
      v[i] = at * kGroupsOfChunk + i < groups
                 ? *reinterpret_cast<const float2*>(&of_group[at][i * kRows + 2 * s.g])
                 : float2{};
    chunk[c].x = squares_of_chunk([&](unsigned i) { return v[i].x; });
    chunk[c].y = squares_of_chunk([&](unsigned i) { return v[i].y; });
  }
  float2 total = {};
#pragma unroll
  for (unsigned c = 0; c < kChunks; ++c) {
    total.x += __shfl_sync(kAllLanes, chunk[c / 4].x, c % 4, 4);
    total.y += __shfl_sync(kAllLanes, chunk[c / 4].y, c % 4, 4);
  }
  return total;
}

// Into fragments, and into memory: of each row one of the clusters writes it.
__device__ inline void store_normed(uint4* to, const Params& p, const Share& s, Rows& x,
                                    const float (&weight)[2][8], float2 squares, unsigned live) {
  const float scale[2] = {norm_scale(squares.x, p.k, p.eps), norm_scale(squares.y, p.k, p.eps)};
  const bool writes = s.g * gridDim.y / kPairs == blockIdx.y;
#pragma unroll
  for (unsigned i = 0; i < 2; ++i) {
    uint4 eight[2];
#pragma unroll
    for (unsigned r = 0; r < 2; ++r) {
      norm8(x.of[r][i], weight[i], scale[r]);
      eight[r] = pack8(x.of[r][i]);
      const unsigned row = s.row + r * kPairs;
      if (writes && row < live)
        *reinterpret_cast<uint4*>(p.normed + row * p.normed_stride + s.k + i * kStep) = eight[r];
    }
    skinny::store_fragments(to, 2 * s.warp + i, eight[0], eight[1]);
  }
}

}  // namespace lynx::cuda::norm
