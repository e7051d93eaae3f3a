// The sum of squares of a row, in an order that knows only the row's length: every kernel that norms rows
// agrees to the bit. Lane q of four adds the 16 elements 8 q .. and 32 + 8 q .. of each 64, the four lanes
// meet, eight such sums make a chunk of 512, and chunks are added in rising order.
#pragma once

#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

inline constexpr unsigned kSquareGroup = 64;
inline constexpr unsigned kGroupsOfChunk = 8;
inline constexpr unsigned kSquareChunk = kSquareGroup * kGroupsOfChunk;

// v: a lane's elements of a group. Every one of the four lanes gets the sum.
__device__ inline float squares_of_group(const float (&v)[2][8]) {
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < 16; ++i) sum = __fmaf_rn(v[i / 8][i % 8], v[i / 8][i % 8], sum);
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  return sum + __shfl_xor_sync(kAllLanes, sum, 2);
}

// groups(i): of eight.
template <typename Groups>
__device__ float squares_of_chunk(const Groups& groups) {
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < kGroupsOfChunk; ++i) sum += groups(i);
  return sum;
}

__device__ inline float norm_scale(float squares, unsigned cols, float eps) {
  return rsqrtf(squares / static_cast<float>(cols) + eps);
}

// A lane's 8 elements, normed.
__device__ inline void norm8(float (&v)[8], const float (&weight)[8], float scale) {
#pragma unroll
  for (unsigned i = 0; i < 8; ++i) v[i] *= scale * weight[i];
}

}  // namespace lynx::cuda
