// What top-k and top-p keep is all ranks from some rank up. That rank is found in two steps: a histogram over
// (top - score) / temperature tells the bin it lies in, then the bin's few tokens are compared one by one. A
// bin with too many tokens (equal logits, say) is searched by bisection on the rank.
#pragma once

#include "kernels/cuda/sampling.h"
#include "kernels/cuda/sampling_row.cuh"

namespace lynx::cuda::sampling {

inline constexpr unsigned kBins = 2048;
inline constexpr float kBinsPerTemperature = 64;  // 32 temperatures below the best a mass is 0
inline constexpr unsigned kListed = 1024;         // tokens of a bin that are compared one by one
// A first look at the tokens for top-p goes down this many temperatures; few rows need more.
inline constexpr float kNearTemperatures = 12;

struct Shared {
  Mass weight[kBins];  // masses or counts; the draw's tiles lie here too
  Rank listed[kListed];
  Mass listed_weight[kListed];
  std::uint32_t list_size;
  Mass of_warp[kWarps];
  unsigned found;      // a bin, or the token drawn
  Mass above;          // weight of the bins above it
  std::uint32_t size;  // tokens in it
  Rank rank;
};
static_assert(kMaxTiles <= kBins);

enum class Weight { kCount, kMass };

__device__ inline Mass weight_of(const Row& row, Weight weight, float score) {
  return weight == Weight::kMass ? row.mass(score) : 1;
}

__device__ inline unsigned bin_of(const Row& row, float score) {
  return static_cast<unsigned>(
      fminf((row.top - score) * row.per_temperature * kBinsPerTemperature, static_cast<float>(kBins - 1)));
}

// The sum over the block, for every thread.
__device__ inline Mass block_sum(Shared& shared, Mass value) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared.of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  Mass total = 0;
  for (const Mass m : shared.of_warp) total += m;
  return total;
}

// Two additions of 32 bits: shared memory has no 64-bit one and would go round in a loop instead.
__device__ inline void add_shared(Mass* to, Mass value) {
  auto* halves = reinterpret_cast<std::uint32_t*>(to);
  const auto low = static_cast<std::uint32_t>(value);
  const std::uint32_t before = atomicAdd(halves, low);
  const std::uint32_t high = static_cast<std::uint32_t>(value >> 32) + (before + low < before ? 1 : 0);
  if (high != 0) atomicAdd(halves + 1, high);
}

// Returns the sum of all.
__device__ inline Mass fill_histogram(Shared& shared, const Row& row, Weight weight) {
  for (unsigned b = threadIdx.x; b < kBins; b += kThreads) shared.weight[b] = 0;
  __syncthreads();
  Mass own = 0;
  for_each_held(row, [&](float score, unsigned) {
    const Mass w = weight_of(row, weight, score);
    if (w == 0) return;
    add_shared(shared.weight + bin_of(row, score), w);
    own += w;
  });
  return block_sum(shared, own);
}

// The bin in which the sum of weights from bin 0 on reaches `target`, at least 1 and at most the sum of all.
__device__ inline void find_bin(Shared& shared, Mass target) {
  constexpr unsigned kEach = kBins / kWarp;
  if (threadIdx.x < kWarp) {
    Mass own = 0;
    for (unsigned i = 0; i < kEach; ++i) own += shared.weight[threadIdx.x * kEach + i];
    const Mass through = warp_prefix_sum(own, threadIdx.x);
    Mass before = through - own;
    if (before < target && target <= through) {
      unsigned b = threadIdx.x * kEach;
      while (before + shared.weight[b] < target) before += shared.weight[b++];
      shared.found = b;
      shared.above = before;
    }
  }
  if (threadIdx.x == 0) shared.list_size = 0;
  __syncthreads();
}

// Lists the tokens of the bin found, as far as there is room; list_size counts them all.
__device__ inline void list_bin(Shared& shared, const Row& row, Weight weight) {
  for_each_held(row, [&](float score, unsigned token) {
    if (bin_of(row, score) != shared.found) return;
    const unsigned at = atomicAdd(&shared.list_size, 1U);
    if (at >= kListed) return;
    shared.listed[at] = rank_of(score, token);
    shared.listed_weight[at] = weight_of(row, weight, score);
  });
  __syncthreads();
}

// In the list: the rank down to which the weights reach `target`.
__device__ inline void find_rank_listed(Shared& shared, Mass target) {
  static_assert(kListed <= kThreads, "one listed token a thread");
  if (threadIdx.x < shared.list_size) {
    const Rank mine = shared.listed[threadIdx.x];
    Mass before = 0;
    for (unsigned i = 0; i < shared.list_size; ++i)
      if (shared.listed[i] > mine) before += shared.listed_weight[i];
    if (before < target && target <= before + shared.listed_weight[threadIdx.x]) shared.rank = mine;
  }
}

__device__ inline Mass weight_from(Shared& shared, const Row& row, Weight weight, Rank from) {
  Mass own = 0;
  for_each_held(row, [&](float score, unsigned token) {
    if (bin_of(row, score) == shared.found && rank_of(score, token) >= from)
      own += weight_of(row, weight, score);
  });
  return block_sum(shared, own);
}

__device__ inline void find_rank_bisecting(Shared& shared, const Row& row, Weight weight, Mass target) {
  Rank low = 0;  // weight_from(low) >= target > weight_from(high)
  Rank high = ~Rank{0};
  while (high - low > 1) {
    const Rank middle = low + (high - low) / 2;
    if (weight_from(shared, row, weight, middle) >= target)
      low = middle;
    else
      high = middle;
  }
  if (threadIdx.x == 0) shared.rank = low;
}

// Keeps the best tokens of the histogram whose weights reach `target`.
__device__ inline void keep_best(Shared& shared, Row& row, Weight weight, Mass target) {
  find_bin(shared, target);
  const Mass in_bin = target - shared.above;
  list_bin(shared, row, weight);
  if (shared.list_size <= kListed)
    find_rank_listed(shared, in_bin);
  else
    find_rank_bisecting(shared, row, weight, in_bin);
  __syncthreads();
  row.keep_from(shared.rank);
  __syncthreads();
}

// Keeps the best tokens whose weights reach `wanted`; all of them if they do not. Returns whether any may
// have gone. Looks at the likely tokens first.
__device__ inline bool keep(Shared& shared, Row& row, Weight weight, Mass wanted) {
  Row near = row;
  near.floor = fmaxf(row.floor, row.top - kNearTemperatures / row.per_temperature);
  Mass seen = fill_histogram(shared, near, weight);
  if (seen < wanted) {
    near = row;
    seen = fill_histogram(shared, row, weight);
    if (seen <= wanted) return false;
  }
  keep_best(shared, near, weight, wanted);
  row = near;
  return true;
}

// min-p is in the row's floor already; `all` is the mass of the whole row. True if tokens may have gone.
__device__ inline bool narrow(Shared& shared, Row& row, const SamplingRow& how, Mass all) {
  bool narrowed = how.min_p > 0;
  if (how.top_k > 0 && how.top_k < row.vocab) narrowed |= keep(shared, row, Weight::kCount, how.top_k);
  if (how.top_p >= 1) return narrowed;
  if (narrowed) {
    Mass own = 0;
    for_each_held(row, [&](float score, unsigned) { own += row.mass(score); });
    all = block_sum(shared, own);
  }
  const auto wanted = static_cast<Mass>(ceil(static_cast<double>(how.top_p) * static_cast<double>(all)));
  narrowed |= keep(shared, row, Weight::kMass, max(wanted, Mass{1}));
  return narrowed;
}

}  // namespace lynx::cuda::sampling
