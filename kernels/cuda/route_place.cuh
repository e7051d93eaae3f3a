// The second half of routing: where the pairs of each expert stand in the transposed plan, and the
// statistics.
#pragma once

#include "kernels/cuda/route_votes.cuh"

namespace lynx::cuda {

// Where thread e's expert stands in the plan.
struct Place {
  bool active = false;
  std::uint32_t index = 0;       // among the active experts
  std::uint32_t first_pair = 0;  // in the transposed plan
  std::uint32_t all_active = 0;  // A
  std::uint32_t all_pairs = 0;
};

// Every block, for itself.
template <bool kAlone>
__device__ inline Place place_experts(const RouteArgs& args, RouteShared& s, const Post<kAlone>& post) {
  const std::uint32_t e = threadIdx.x;
  const std::uint32_t lane = e % kWarp;
  const std::uint32_t warps = (args.shape.experts + kWarp - 1) / kWarp;
  std::uint64_t rows = 0;
  if (e < args.shape.experts)
    post.each([&](std::uint32_t b) { rows |= std::uint64_t{post.used(b, e)} << (b * kRowsPerBlock); });
  // Pairs in the low half, experts in the high half: one scan for both.
  const std::uint32_t own = rows == 0 ? 0 : 1U << 16 | static_cast<std::uint32_t>(__popcll(rows));
  std::uint32_t sum = own;
#pragma unroll
  for (std::uint32_t step = 1; step < kWarp; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) s.scan[e / kWarp] = sum;
  __syncthreads();
  const std::uint32_t of_warp = lane < warps ? s.scan[lane] : 0;
  const std::uint32_t totals = __reduce_add_sync(kAllLanes, of_warp);
  const std::uint32_t before = __reduce_add_sync(kAllLanes, lane < e / kWarp ? of_warp : 0) + sum - own;
  if (e < args.shape.experts) {
    s.rows_of[e] = rows;
    s.start[e] = before & 0xFFFFU;
  }
  __syncthreads();
  return {own != 0, before >> 16, before & 0xFFFFU, totals >> 16, totals & 0xFFFFU};
}

// Block 0: the list of active experts.
__device__ inline void write_experts(const DevicePlan& plan, const Place& place) {
  if (place.active) {
    plan.active[place.index] = threadIdx.x;
    plan.offsets[place.index] = place.first_pair;
  }
  if (threadIdx.x == 0) {
    *plan.count = place.all_active;
    plan.offsets[place.all_active] = place.all_pairs;
  }
}

// Lane's slot of the row, in both forms of the plan.
__device__ inline void write_slot(const DevicePlan& plan, const RouteShared& s, const Row& row,
                                  const Ranked& chosen, float weight) {
  if (row.index < plan.rows && row.lane < plan.top_k) {
    plan.expert_of[row.index * plan.top_k + row.lane] = chosen.expert;
    plan.weight_of[row.index * plan.top_k + row.lane] = weight;
  }
  if (chosen.expert == ExpertPlan::kNoExpert) return;
  const std::uint64_t rows_before = s.rows_of[chosen.expert] & ((std::uint64_t{1} << row.index) - 1);
  const std::uint32_t pair = s.start[chosen.expert] + static_cast<std::uint32_t>(__popcll(rows_before));
  plan.row_of[pair] = row.index;
  plan.slot_of[pair] = row.lane;
  plan.pair_weight[pair] = weight;
}

// One warp of block 0, once all rows have been weighed.
__device__ inline void write_totals(const RouteArgs& args, const RouteShared& s, std::uint32_t routed,
                                    std::uint32_t active, std::uint32_t live) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint64_t sum = 0;
  std::uint32_t remapped = 0;
  std::uint32_t least = 1U << 24;
#pragma unroll 1
  for (std::uint32_t r = lane; r < live; r += kWarp) {
    sum += s.retained[r];
    least = min(least, s.retained[r]);
    remapped += s.remapped[r];
    args.plan.row_stats[r] = {.remapped = s.remapped[r], .retained_q24 = s.retained[r]};
  }
  sum = sum_lanes(sum);
  least = __reduce_min_sync(kAllLanes, least);
  remapped = __reduce_add_sync(kAllLanes, remapped);
  if (lane != 0) return;
  *args.plan.stats = {.routed_experts = routed,
                      .activated_experts = active,
                      .assignments = live * args.shape.top_k,
                      .remapped = remapped,
                      .retained_q24_sum = sum,
                      .retained_q24_min = least,
                      .reserved = 0};
}

// Experts of all rows' exact top-k sets. One warp of block 0.
template <bool kAlone>
__device__ inline std::uint32_t count_routed(const Post<kAlone>& post) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint32_t word = 0;
  if (lane < kActiveWords) post.each([&](std::uint32_t b) { word |= post.routed(b, lane); });
  return __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(__popc(word)));
}

}  // namespace lynx::cuda
