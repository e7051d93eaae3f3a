// What the blocks of a routing cluster share. A block holds kRowsPerBlock rows, one a warp; what a row says
// about an expert is one bit of a word, so that everything summed over rows is a count of bits.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/cuda/route.h"
#include "kernels/cuda/route_row.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kRowsPerBlock = 8;
inline constexpr std::uint32_t kRouteThreads = kRowsPerBlock * kWarp;
inline constexpr std::uint32_t kMaxRouteBlocks = kMaxRouteRows / kRowsPerBlock;
inline constexpr std::uint32_t kActiveWords = kMaxRouteExperts / 32;

// Fields of a vote word, kRowsPerBlock bits each: bit r of the field is the block's row r.
inline constexpr std::uint32_t kKeepField = 0, kLastField = 8, kRoutedField = 16;

struct RouteShared {
  std::uint32_t votes[kMaxRouteExperts];       // of this block's rows
  std::uint32_t used[kMaxRouteExperts];        // bit r: row r of this block takes the expert
  std::uint64_t rows_of[kMaxRouteExperts];     // bit r: row r of the batch takes the expert
  std::uint32_t start[kMaxRouteExperts];       // the expert's first pair in the transposed plan
  std::uint32_t active[kActiveWords];          // the set A, a bit an expert
  std::uint32_t routed[kActiveWords];          // experts of the exact top-k sets
  std::uint32_t scan[kRowsPerBlock];           // of the warps
  std::uint32_t voters;                        // of this block
  std::uint32_t chosen[kRowsPerBlock][kWarp];  // a row's kept experts, made dense
  std::uint32_t chosen_key[kRowsPerBlock][kWarp];
  // Block 0 only: one entry a row of the batch.
  std::uint32_t retained[kMaxRouteRows];
  std::uint32_t remapped[kMaxRouteRows];
  // Block 0 only, when A is filled up: the sum of probabilities, and (lynx) vote digits [N, bins + 1].
  std::uint64_t probability[kMaxRouteExperts];
  std::uint32_t digits[];
};

inline std::size_t route_shared_bytes(const RouteArgs& args) {
  const std::size_t digits = args.policy == PolicyKind::kLynx ? args.derived.bins + 1 : 0;
  return sizeof(RouteShared) + digits * args.shape.experts * sizeof(std::uint32_t);
}

__device__ inline std::uint32_t count_bits(const std::uint32_t* words) {
  std::uint32_t count = 0;
#pragma unroll
  for (std::uint32_t w = 0; w < kActiveWords; ++w) count += __popc(words[w]);
  return count;
}

__device__ inline bool has_bit(const std::uint32_t* words, std::uint32_t e) {
  return (words[e / 32] >> (e % 32) & 1) != 0;
}

}  // namespace lynx::cuda
