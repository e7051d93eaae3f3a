// The online softmax of decode attention: a warp's scores of 8 heads by 16 keys, as m16n8k16 leaves them,
// into weights, and what was summed before to the new maximum.
#pragma once

#include "kernels/cuda/attention_parts.cuh"

namespace lynx::cuda {

// What a warp has summed of a part.
template <unsigned kD>
struct HeadSums {
  float out[kD / 16][4];  // columns of each tile are heads 2q and 2q + 1
  float max;              // of head g
  float sum;              // this lane's share, until add_lanes

  __device__ void clear() {
    max = -INFINITY;
    sum = 0;
#pragma unroll
    for (auto& o : out) o[0] = o[1] = o[2] = o[3] = 0;
  }

  // score: of head g with keys 2q and 2q + 1, then keys 2q + 8 and 2q + 9. keys: of this tile that count.
  template <unsigned kRoom>  // 2 of it, or what m16n8k16 leaves
  __device__ void soften(float (&score)[2][kRoom], unsigned keys) {
    constexpr unsigned kTileKeys = 16;
    const unsigned q = threadIdx.x % 4;
    if (keys < kTileKeys) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i)
        if (i / 2 * 8 + 2 * q + i % 2 >= keys) score[i / 2][i % 2] = -INFINITY;
    }
    float now = fmaxf(fmaxf(score[0][0], score[0][1]), fmaxf(score[1][0], score[1][1]));
    now = fmaxf(now, __shfl_xor_sync(kAllLanes, now, 1));
    now = fmaxf(max, fmaxf(now, __shfl_xor_sync(kAllLanes, now, 2)));
    const float factor = rescale(max, now);
    const bool stays = factor == 1 || max == -INFINITY;  // nothing is summed yet
    max = now;
    sum *= factor;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      score[i / 2][i % 2] = power_of_two(score[i / 2][i % 2] - now);
      sum += score[i / 2][i % 2];
    }
    if (!__all_sync(kAllLanes, stays)) scale_out(factor);
  }

  __device__ void add_lanes() {
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
  }

 private:
  // factor: of head g.
  __device__ void scale_out(float factor) {
    const unsigned q = threadIdx.x % 4;
    const float even = __shfl_sync(kAllLanes, factor, 8 * q);
    const float odd = __shfl_sync(kAllLanes, factor, 8 * q + 4);
#pragma unroll
    for (auto& o : out) {
      o[0] *= even;
      o[1] *= odd;
      o[2] *= even;
      o[3] *= odd;
    }
  }
};

// The same halves of two words: two keys' values of one d.
__device__ inline std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ inline std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

}  // namespace lynx::cuda
