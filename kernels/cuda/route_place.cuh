// The second half of routing: where the pairs of each expert stand in the transposed plan, and the
// statistics.
#pragma once

#include "kernels/cuda/route_votes.cuh"

namespace lynx::cuda {

// Every block, for itself: where the pairs of each expert begin. Block 0 writes the list of active experts.
// Returns A in the high half and the number of pairs in the low half.
__device__ inline std::uint32_t place_experts(const RouteArgs& args, RouteShared& s,
                                              const cg::cluster_group& cluster) {
  const std::uint32_t blocks = cluster.num_blocks();
  const std::uint32_t e = threadIdx.x;
  const std::uint32_t lane = e % kWarp;
  const std::uint32_t warps = (args.shape.experts + kWarp - 1) / kWarp;
  std::uint64_t rows = 0;
  if (e < args.shape.experts)
    for (std::uint32_t b = 0; b < blocks; ++b)
      rows |= std::uint64_t{*cluster.map_shared_rank(&s.used[e], b)} << (b * kRowsPerBlock);
  const std::uint32_t own = rows == 0 ? 0 : 1U << 16 | static_cast<std::uint32_t>(__popcll(rows));
  std::uint32_t sum = own;
#pragma unroll
  for (std::uint32_t step = 1; step < kWarp; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) s.scan[e / kWarp] = sum;
  __syncthreads();
  std::uint32_t place = sum - own;
  std::uint32_t totals = 0;
  for (std::uint32_t w = 0; w < warps; ++w) {
    place += w < e / kWarp ? s.scan[w] : 0;
    totals += s.scan[w];
  }
  if (e < args.shape.experts) {
    s.rows_of[e] = rows;
    s.start[e] = place & 0xFFFFU;
    if (own != 0 && cluster.block_rank() == 0) {
      args.plan.active[place >> 16] = e;
      args.plan.offsets[place >> 16] = place & 0xFFFFU;
    }
  }
  if (e == 0 && cluster.block_rank() == 0) {
    *args.plan.count = totals >> 16;
    args.plan.offsets[totals >> 16] = totals & 0xFFFFU;
  }
  __syncthreads();
  return totals;
}

__device__ inline void write_pairs(const RouteArgs& args, const RouteShared& s, const Row& row,
                                   const Ranked& chosen, float weight) {
  if (chosen.expert == ExpertPlan::kNoExpert) return;
  const std::uint64_t rows_before = s.rows_of[chosen.expert] & ((std::uint64_t{1} << row.index) - 1);
  const std::uint32_t place = s.start[chosen.expert] + static_cast<std::uint32_t>(__popcll(rows_before));
  args.plan.row_of[place] = row.index;
  args.plan.slot_of[place] = row.lane;
  args.plan.pair_weight[place] = weight;
}

__device__ inline void write_totals(const RouteArgs& args, const RouteShared& s, std::uint32_t routed,
                                    std::uint32_t totals) {
  if (threadIdx.x >= kWarp) return;
  const std::uint32_t live = live_count(args.live_rows, args.plan.rows);
  std::uint64_t sum = 0;
  std::uint32_t remapped = 0;
  std::uint32_t least = 1U << 24;
  for (std::uint32_t r = threadIdx.x; r < live; r += kWarp) {
    sum += s.retained[r];
    least = min(least, s.retained[r]);
    remapped += s.remapped[r];
  }
  sum = sum_lanes(sum);
  least = __reduce_min_sync(kAllLanes, least);
  remapped = __reduce_add_sync(kAllLanes, remapped);
  if (threadIdx.x != 0) return;
  *args.plan.stats = {.routed_experts = routed,
                      .activated_experts = totals >> 16,
                      .assignments = live * args.shape.top_k,
                      .remapped = remapped,
                      .retained_q24_sum = sum,
                      .retained_q24_min = least,
                      .reserved = 0};
}

// Experts of all rows' exact top-k sets. Block 0's first warp.
__device__ inline std::uint32_t count_routed(const RouteShared& s, const cg::cluster_group& cluster) {
  std::uint32_t word = 0;
  if (threadIdx.x < kActiveWords)
    for (std::uint32_t b = 0; b < cluster.num_blocks(); ++b)
      word |= *cluster.map_shared_rank(&s.routed[threadIdx.x], b);
  return __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(__popc(word)));
}

}  // namespace lynx::cuda
