// The logits of one row while it is sampled: tiles of them summed up beforehand, ranks and masses of tokens.
//
// Tokens are ordered by rank: one 64-bit number of score, then token (the smaller id is better), no two
// alike. A mass is a probability over that of the best token, in fixed point, so that sums have no order.
#pragma once

#include "kernels/cuda/warp.cuh"

namespace lynx::cuda::sampling {

using Rank = unsigned long long;
using Mass = unsigned long long;

inline constexpr float kMassOne = 0x1p40F;
inline constexpr unsigned kTile = 1024;      // tokens
inline constexpr unsigned kMaxTiles = 1024;  // of a row
inline constexpr unsigned kThreads = 1024;   // of the block that samples a row
inline constexpr unsigned kWarps = kThreads / kWarp;

struct TileSummary {
  float max;
  std::uint32_t token;  // of the maximum; the smallest
  float sum;            // of e^(logit - max)
  float sum_tempered;   // of e^((logit - max) / temperature), for rows that are drawn
  std::uint32_t bad;    // NaN or +inf among them
};

__device__ inline Rank rank_of(float score, unsigned token) {
  const std::uint32_t bits = __float_as_uint(score == 0 ? 0.0F : score);
  const std::uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
  return Rank{ordered} << 32 | static_cast<std::uint32_t>(~token);
}
__device__ inline float score_of(Rank rank) {
  const auto ordered = static_cast<std::uint32_t>(rank >> 32);
  return __uint_as_float(ordered ^ ((ordered >> 31) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

// visit(logit, token) for tokens [begin, end), shared out over `count` threads of which this is `index`.
// Loads run ahead of the visits, 16 bytes each where the row's alignment allows it.
template <typename Visit>
__device__ void for_each_logit(const float* logits, unsigned begin, unsigned end, unsigned index,
                               unsigned count, const Visit& visit) {
  constexpr unsigned kBatch = 4;
  unsigned i = begin;
  if (reinterpret_cast<std::uintptr_t>(logits + begin) % sizeof(float4) == 0) {
    const unsigned whole = begin + (end - begin) / 4 * 4;
    for (; i < whole; i += 4 * kBatch * count) {
      float4 v[kBatch];
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        const unsigned at = i + 4 * (b * count + index);
        if (at < whole) v[b] = *reinterpret_cast<const float4*>(logits + at);
      }
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        const unsigned at = i + 4 * (b * count + index);
        if (at >= whole) break;
        visit(v[b].x, at);
        visit(v[b].y, at + 1);
        visit(v[b].z, at + 2);
        visit(v[b].w, at + 3);
      }
    }
    i = whole;
  }
  for (i += index; i < end; i += count) visit(logits[i], i);
}

// One warp sums up one tile. per_temperature: 1 / temperature, or 0 for a row that is not drawn.
__device__ inline TileSummary summarize_tile(const float* logits, unsigned begin, unsigned end,
                                             float per_temperature) {
  const unsigned lane = threadIdx.x % kWarp;
  float max = -INFINITY;
  unsigned token = 0xFFFFFFFFU;
  bool bad = false;
  for_each_logit(logits, begin, end, lane, kWarp, [&](float x, unsigned t) {
    bad |= !(x < INFINITY);
    if (x > max) {
      max = x;
      token = t;
    }
  });
  TileSummary out = {warp_max(max), 0, 0, 0, __any_sync(kAllLanes, bad) ? 1U : 0U};
  out.token = __reduce_min_sync(kAllLanes, max == out.max ? token : 0xFFFFFFFFU);
  if (out.max == -INFINITY || out.bad != 0) return out;
  for_each_logit(logits, begin, end, lane, kWarp, [&](float x, unsigned) {  // from L1 this time
    out.sum += expf(x - out.max);
    if (per_temperature != 0) out.sum_tempered += expf((x - out.max) * per_temperature);
  });
  out.sum = warp_sum(out.sum);
  out.sum_tempered = warp_sum(out.sum_tempered);
  return out;
}

// The tokens of one row that are still in the running: score at least `floor`, rank at least `from`.
struct Row {
  const float* logits;
  unsigned vocab;
  float top, per_temperature, floor;
  Rank from;

  __device__ bool holds(float score, unsigned token) const {
    return score >= floor && score != -INFINITY && rank_of(score, token) >= from;
  }
  __device__ Mass mass(float score) const {
    return static_cast<Mass>(expf((score - top) * per_temperature) * kMassOne);
  }
  __device__ void keep_from(Rank rank) {
    from = rank;
    floor = fmaxf(floor, score_of(rank));
  }
};

// visit(score, token) for the tokens in the running, over the whole block.
template <typename Visit>
__device__ void for_each_held(const Row& row, const Visit& visit) {
  for_each_logit(row.logits, 0, row.vocab, threadIdx.x, kThreads, [&](float score, unsigned token) {
    if (row.holds(score, token)) visit(score, token);
  });
}

}  // namespace lynx::cuda::sampling
