// What the blocks of a routing cluster share. A block holds kRowsPerBlock rows, one a warp; what a row says
// about an expert is one bit of a word, so that everything summed over rows is a count of bits.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/cuda/route.h"
#include "kernels/cuda/route_row.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kRowsPerBlock = 16;
// A block's first warps have a row each, the others 32 experts each: so many words of experts at most.
inline constexpr std::uint32_t kRowThreads = kRowsPerBlock * kWarp;
template <int kWords>
inline constexpr std::uint32_t kRouteThreads = kRowThreads + kWords * kWarp;
inline constexpr std::uint32_t kMostBlocks = kMaxRouteRows / kRowsPerBlock;
inline constexpr std::uint32_t kRowBits = (1U << kRowsPerBlock) - 1;
inline constexpr std::uint32_t kActiveWords = kMaxRouteExperts / 32;
static_assert(kRowThreads >= kMaxRouteExperts, "a thread an expert when the set is filled up");

// A power of two.
inline unsigned route_blocks(std::uint32_t rows) {
  unsigned blocks = 1;
  while (blocks * kRowsPerBlock < rows) blocks *= 2;
  return blocks;
}

// The blocks that route together, where they have to meet or to write into one another's shared memory: a
// cluster, or one block alone.
template <bool kAlone>
struct Blocks {
  cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();

  __device__ std::uint32_t count() const { return kAlone ? 1 : cluster.num_blocks(); }
  __device__ std::uint32_t rank() const { return kAlone ? 0 : cluster.block_rank(); }
  template <typename T>
  __device__ T& of(T& mine, std::uint32_t block) const {
    return kAlone ? mine : *cluster.map_shared_rank(&mine, block);
  }
  // visit(block): of each of them.
  template <typename Visit>
  __device__ void each(const Visit& visit) const {
#pragma unroll
    for (std::uint32_t b = 0; b < (kAlone ? 1 : kMostBlocks); ++b)
      if (b < count()) visit(b);
  }
  __device__ void sync() const {
    if constexpr (kAlone)
      __syncthreads();
    else
      cluster.sync();
  }
};

struct RouteShared {
  // [block of the cluster]: of its rows; other blocks send theirs (route_mail.cuh). Zero for blocks that are
  // not there.
  // Bit r: row r makes the expert stay. Bit r + 16: it has the expert among its exact top-k, and would let it
  // go (lynx: unless all voters say so).
  alignas(16) std::uint32_t votes[kMostBlocks][kMaxRouteExperts];
  alignas(16) std::uint32_t brings[kMostBlocks][kMaxRouteExperts];  // bit r: row r takes it, not of its top-k
  alignas(16) std::uint32_t energy[kMostBlocks][kMaxRouteExperts];  // energy: the rows' sum
  alignas(16) std::uint32_t voters[kMostBlocks];   // bit r: row r votes; bit r + 16: it has a NaN
  alignas(16) std::uint32_t active[kActiveWords];  // the set A, a bit an expert
  alignas(16) std::uint32_t scan[kActiveWords];  // of 32 experts: how many are taken << 16 | by how many rows
  alignas(16) std::uint32_t
      again[kActiveWords];              // bit e: some row may have to choose again, by what expert e has lost
  std::uint32_t routed[kActiveWords];   // of 32 experts: how many are in some row's exact top-k
  std::uint32_t brought[kActiveWords];  // energy with k = 1: by all rows, see route_serve.cuh
  std::uint64_t rows_of[kMaxRouteExperts];  // bit r: row r of the batch takes the expert
  std::uint32_t
      start[kMaxRouteExperts];  // the expert's first pair in the transposed plan, from its 32's first
  Ranked chosen[kRowsPerBlock]
               [kWarp];  // a row's experts, on their way from those who find them to their lanes
  // Block 0 only: one entry a row of the batch.
  std::uint32_t retained[kMaxRouteRows];
  std::uint32_t remapped[kMaxRouteRows];
  // Block 0 only, when A is filled up: the sum of probabilities; and under lynx the votes.
  std::uint64_t probability[kMaxRouteExperts];
  std::uint64_t score[];  // [N, score_words]: the digits of an expert, most significant first; then digits
                          // [N, bins + 1]
};

// A digit counts up to 64 rows.
inline constexpr std::uint32_t kDigitBits = 7;
inline constexpr std::uint32_t kDigitsOfWord = 9;

__host__ __device__ inline std::uint32_t digits_of(const RouteArgs& args) {
  return args.policy == PolicyKind::kLynx ? args.derived.bins + 1 : 0;
}
__host__ __device__ inline std::uint32_t score_words(const RouteArgs& args) {
  return (digits_of(args) + kDigitsOfWord - 1) / kDigitsOfWord;
}
__device__ inline std::uint32_t* digits_in(const RouteArgs& args, RouteShared& s) {
  return reinterpret_cast<std::uint32_t*>(s.score + args.shape.experts * score_words(args));
}
__host__ __device__ inline std::uint32_t route_shared_bytes(const RouteArgs& args) {
  constexpr std::uint32_t kAlign = 16;
  const std::uint32_t rest = args.shape.experts * (score_words(args) * sizeof(std::uint64_t) +
                                                   digits_of(args) * sizeof(std::uint32_t));
  return (sizeof(RouteShared) + rest + kAlign - 1) / kAlign * kAlign;
}

__device__ __noinline__ inline void set_route_mark(std::uint64_t* timeline, RouteMark mark) {
  mark_now(timeline, mark);
}
__device__ inline void mark_route(const RouteArgs& args, RouteMark mark) {
  if (args.timeline != nullptr && threadIdx.x == 0) set_route_mark(args.timeline, mark);
}

// Of kActiveWords words. One warp.
__device__ inline std::uint32_t count_bits(const std::uint32_t* words, std::uint32_t lane) {
  const std::uint32_t mine = lane < kActiveWords ? __popc(words[lane]) : 0;
  return __reduce_add_sync(kAllLanes, mine);
}

__device__ inline bool has_bit(const std::uint32_t* words, std::uint32_t e) {
  return (words[e / 32] >> (e % 32) & 1) != 0;
}

}  // namespace lynx::cuda
