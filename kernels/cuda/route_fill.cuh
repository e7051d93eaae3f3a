// Filling the active set up: the rare path, taken when a policy leaves fewer than k experts (or chooses by
// summed probability). All rows add up in block 0, whose first warp then takes the best of the experts left
// out, one by one. See Selection::fill_to.
#pragma once

#include "kernels/cuda/route_count.cuh"
#include "kernels/cuda/route_votes.cuh"

namespace lynx::cuda {

// The row's probabilities and, under lynx, its votes, added to block 0's sums. One warp.
__device__ inline void add_row(const RouteArgs& args, RouteShared& sums, const float* row, float max,
                               const Ranked& top, std::uint32_t lane) {
  const std::uint32_t n = args.shape.experts;
  const RouterKind kind = args.shape.kind;
  std::uint64_t total = kMassOne;
  if (kind == RouterKind::kSoftmax) {
    total = 0;
#pragma unroll 1
    for (std::uint32_t e = lane; e < n; e += kWarp) total += mass_of(kind, row[e], max);
    total = sum_lanes(total);
  }
#pragma unroll 1
  for (std::uint32_t e = lane; e < n; e += kWarp) {
    const std::uint64_t part = quotient(std::uint64_t{mass_of(kind, row[e], max)} << 31, total);
    atomicAdd(reinterpret_cast<unsigned long long*>(&sums.probability[e]), part);
  }
  if (args.policy == PolicyKind::kLynx && lane < args.shape.top_k) {
    const std::uint32_t bins = args.derived.bins;
    const std::uint32_t bin = affinity_bin(gap_below(max, key_value(top.key)), args.derived.alpha, bins - 1);
    atomicAdd(&digits_in(args, sums)[top.expert * (bins + 1) + 1 + bin], 1U);
  }
}

// All votes in one bin carry into the digit before. See lynx.cc.
__device__ inline void carry(std::uint32_t* digits, std::uint32_t count, std::uint32_t base) {
#pragma unroll 1
  for (std::uint32_t i = 1; i < count; ++i) {
    if (digits[i] != base) continue;
    digits[i] = 0;
    ++digits[i - 1];
    return;
  }
}

// The votes of an expert as words that compare like its score. One thread an expert.
__device__ inline void score_experts(const RouteArgs& args, RouteShared& s, std::uint32_t voters) {
  const std::uint32_t count = digits_of(args);
  const std::uint32_t e = threadIdx.x;
  if (count == 0 || e >= args.shape.experts) return;
  std::uint32_t* digits = digits_in(args, s) + e * count;
  carry(digits, count, voters);
  std::uint64_t* words = s.score + e * score_words(args);
#pragma unroll 1
  for (std::uint32_t first = 0; first < count; first += kDigitsOfWord) {
    std::uint64_t word = 0;
#pragma unroll 1
    for (std::uint32_t i = 0; i < kDigitsOfWord; ++i)
      word = word << kDigitBits | (first + i < count ? digits[first + i] : 0);
    *words++ = word;
  }
}

// Experts of lane l: l, l + 32, ...; bit v of its mask is expert l + 32 v. Keeps those with the largest
// value.
__device__ __noinline__ inline std::uint32_t keep_largest(std::uint32_t mask, const std::uint64_t* values,
                                                          std::uint32_t stride, std::uint32_t lane) {
  std::uint64_t best = 0;
#pragma unroll 1
  for (std::uint32_t left = mask; left != 0; left &= left - 1)
    best = max(best, values[(lane + (__ffs(left) - 1) * kWarp) * stride]);
  const std::uint32_t high = __reduce_max_sync(kAllLanes, static_cast<std::uint32_t>(best >> 32));
  const std::uint32_t low =
      __reduce_max_sync(kAllLanes, best >> 32 == high ? static_cast<std::uint32_t>(best) : 0U);
  const std::uint64_t largest = std::uint64_t{high} << 32 | low;
  std::uint32_t kept = 0;
#pragma unroll 1
  for (std::uint32_t left = mask; left != 0; left &= left - 1)
    if (values[(lane + (__ffs(left) - 1) * kWarp) * stride] == largest) kept |= left & (0U - left);
  return kept;
}

// Activates the best of the experts left out until `count` are active. The first warp of block 0.
__device__ __noinline__ inline void fill_to(const RouteArgs& args, RouteShared& s, std::uint32_t count,
                                            std::uint32_t lane) {
  const std::uint32_t words = score_words(args);
  std::uint32_t out = 0;
#pragma unroll 1
  for (std::uint32_t v = 0; v * kWarp < args.shape.experts; ++v)
    if (lane + v * kWarp < args.shape.experts && !has_bit(s.active, lane + v * kWarp)) out |= 1U << v;
#pragma unroll 1
  for (std::uint32_t have = count_bits(s.active, lane); have < count; ++have) {
    std::uint32_t best = out;
    for (std::uint32_t w = 0; w < words; ++w) best = keep_largest(best, s.score + w, words, lane);
    best = keep_largest(best, s.probability, 1, lane);
    const std::uint32_t mine = best != 0 ? lane + (__ffs(best) - 1) * kWarp : 0xFFFFFFFF;
    const std::uint32_t expert = __reduce_min_sync(kAllLanes, mine);
    if (mine == expert) {
      out &= ~(1U << (expert / kWarp));
      s.active[expert / 32] |= 1U << (expert % 32);
    }
    __syncwarp();
  }
}

// Block 0, once every row has been added: the active set, from what the votes say and the sums.
__device__ inline void choose_filled(const RouteArgs& args, RouteShared& s, std::uint32_t voters) {
  score_experts(args, s, voters);
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  const std::uint32_t lane = threadIdx.x;
  if (fills_first(args.policy)) {
    const std::uint32_t keep = lane < kActiveWords ? s.active[lane] : 0;
    __syncwarp();
    if (lane < kActiveWords) s.active[lane] = 0;
    __syncwarp();
    fill_to(args, s, args.derived.budget, lane);
    if (lane < kActiveWords) s.active[lane] |= keep;
    __syncwarp();
  }
  fill_to(args, s, args.shape.top_k, lane);
}

template <bool kAlone>
__device__ __noinline__ void fill(const RouteArgs& args, RouteShared& s, Row row, Ranked top, float max,
                                  std::uint32_t voters) {
  const Blocks<kAlone> blocks;
  RouteShared& sums = blocks.of(s, 0);
  if (row.votes) add_row(args, sums, row.logits, max, top, row.lane);
  blocks.sync();
  if (blocks.rank() == 0) {
    choose_filled(args, s, voters);
    if (threadIdx.x < kWarp) __syncwarp();
    // Told, not fetched: nobody then reads of a block that may have left.
    if (threadIdx.x < kActiveWords)
      blocks.each([&](std::uint32_t b) { blocks.of(s, b).active[threadIdx.x] = s.active[threadIdx.x]; });
  }
  blocks.sync();
}

}  // namespace lynx::cuda
