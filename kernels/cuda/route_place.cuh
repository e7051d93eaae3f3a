// The second half of routing: where the pairs of each expert stand in the transposed plan, and the
// statistics.
#pragma once

#include "kernels/cuda/route_votes.cuh"

namespace lynx::cuda {

// Experts that are taken << 16 | pairs, of some experts.
__device__ inline std::uint32_t pack(std::uint32_t taken, std::uint32_t pairs) { return taken << 16 | pairs; }

// Of the lanes before this one: the sum of values of so many bits. One vote a bit, none of which waits for
// another.
template <std::uint32_t kBits>
__device__ inline std::uint32_t sum_of_lanes_before(std::uint32_t value, std::uint32_t lane) {
  std::uint32_t sum = 0;
#pragma unroll
  for (std::uint32_t bit = 0; bit < kBits; ++bit) {
    const std::uint32_t lanes = __ballot_sync(kAllLanes, (value >> bit & 1) != 0);
    sum += static_cast<std::uint32_t>(__popc(lanes & lanes_below(lane))) << bit;
  }
  return sum;
}

// Which rows of the batch take thread e's expert is known: what its warp can say of their places. All lanes.
// Returns what comes before the expert in its warp, packed.
template <bool kAlone>
__device__ inline std::uint32_t place_in_warp(RouteShared& s, std::uint32_t e, std::uint64_t rows) {
  const std::uint32_t lane = e % kWarp;
  const auto pairs = static_cast<std::uint32_t>(__popcll(rows));
  const std::uint32_t taken = __ballot_sync(kAllLanes, pairs != 0);
  constexpr std::uint32_t kBits = kAlone ? 5 : 7;
  static_assert((kAlone ? kRowsPerBlock : kMaxRouteRows) < 1U << kBits);
  const std::uint32_t before = sum_of_lanes_before<kBits>(pairs, lane);
  s.rows_of[e] = rows;
  s.start[e] = before;
  if (lane == kWarp - 1) s.scan[e / kWarp] = pack(static_cast<std::uint32_t>(__popc(taken)), before + pairs);
  return pack(static_cast<std::uint32_t>(__popc(taken & lanes_below(lane))), before);
}

// Of `scan`: what comes before 32 experts. V: words that may not be zero.
template <int V>
__device__ inline std::uint32_t sum_of_words_before(const RouteShared& s, std::uint32_t word) {
  std::uint32_t sum = 0;
#pragma unroll
  for (std::uint32_t w = 0; w < V; w += 4) {
    const uint4 four = *reinterpret_cast<const uint4*>(&s.scan[w]);
    sum += (w < word ? four.x : 0) + (w + 1 < word ? four.y : 0);
    sum += (w + 2 < word ? four.z : 0) + (w + 3 < word ? four.w : 0);
  }
  return sum;
}

// Block 0's thread e: its expert in the list of active experts. before: of place_in_warp.
template <int V>
__device__ inline void write_expert(const DevicePlan& plan, const RouteShared& s, std::uint32_t e,
                                    std::uint32_t before) {
  const std::uint32_t at = before + sum_of_words_before<V>(s, e / kWarp);
  if (s.rows_of[e] != 0) {
    plan.active[at >> 16] = e;
    plan.offsets[at >> 16] = at & 0xFFFFU;
  }
  if (e != 0) return;
  const std::uint32_t all = sum_of_words_before<V>(s, kActiveWords);
  *plan.count = all >> 16;
  plan.offsets[all >> 16] = all & 0xFFFFU;
}

// Lane's slot of the row, in both forms of the plan.
template <int V>
__device__ inline void write_slot(const DevicePlan& plan, const RouteShared& s, const Row& row,
                                  const Ranked& chosen, float weight) {
  if (row.index < plan.rows && row.lane < plan.top_k) {
    plan.expert_of[row.index * plan.top_k + row.lane] = chosen.expert;
    plan.weight_of[row.index * plan.top_k + row.lane] = weight;
  }
  if (chosen.expert == ExpertPlan::kNoExpert) return;
  const std::uint64_t rows_before = s.rows_of[chosen.expert] & ((std::uint64_t{1} << row.index) - 1);
  const std::uint32_t words_before = sum_of_words_before<V>(s, chosen.expert / kWarp) & 0xFFFFU;
  const std::uint32_t pair =
      words_before + s.start[chosen.expert] + static_cast<std::uint32_t>(__popcll(rows_before));
  plan.row_of[pair] = row.index;
  plan.slot_of[pair] = row.lane;
  plan.pair_weight[pair] = weight;
}

// One warp of block 0. moves: some row may not have kept all its exact top-k; all rows have told what they
// retained.
__device__ inline void write_totals(const RouteArgs& args, const RouteShared& s, std::uint32_t live,
                                    bool moves) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint64_t sum = 0;
  std::uint32_t remapped = 0;
  std::uint32_t least = kAllRetained;
#pragma unroll 1
  for (std::uint32_t r = lane; r < live; r += kWarp) {
    const DevicePlanRow row =
        moves ? DevicePlanRow{s.remapped[r], s.retained[r]} : DevicePlanRow{0, kAllRetained};
    sum += row.retained_q24;
    least = min(least, row.retained_q24);
    remapped += row.remapped;
    args.plan.row_stats[r] = row;
  }
  sum = sum_lanes(sum);
  least = __reduce_min_sync(kAllLanes, least);
  remapped = __reduce_add_sync(kAllLanes, remapped);
  const std::uint32_t routed = __reduce_add_sync(kAllLanes, lane < kActiveWords ? s.routed[lane] : 0);
  const std::uint32_t taken = __reduce_add_sync(kAllLanes, lane < kActiveWords ? s.scan[lane] >> 16 : 0);
  if (lane != 0) return;
  *args.plan.stats = {.routed_experts = routed,
                      .activated_experts = taken,
                      .assignments = live * args.shape.top_k,
                      .remapped = remapped,
                      .retained_q24_sum = sum,
                      .retained_q24_min = least,
                      .reserved = 0};
}

}  // namespace lynx::cuda
