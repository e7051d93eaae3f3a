// Routing as one block of a cluster does it; the cluster may be this block alone.
#pragma once

#include "kernels/cuda/route_place.cuh"
#include "kernels/cuda/route_serve.cuh"

namespace lynx::cuda {

__device__ inline void clear_votes(const RouteArgs& args, RouteShared& s, std::uint32_t block) {
#pragma unroll 1
  for (std::uint32_t e = threadIdx.x; e < args.shape.experts; e += kRouteThreads) {
    s.votes[e] = 0;
    s.used[e] = 0;
    s.energy[e] = 0;
    if (block == 0) s.probability[e] = 0;
  }
  if (threadIdx.x < kActiveWords) {
    s.routed[threadIdx.x] = 0;
    s.brought[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) s.voters = 0;
  if (block == 0)
#pragma unroll 1
    for (std::uint32_t i = threadIdx.x; i < args.shape.experts * digits_of(args); i += kRouteThreads)
      digits_in(args, s)[i] = 0;
  __syncthreads();
}

// All threads of the block, after clear_votes. What one row does not need at once, it does between arriving
// at a meeting of the blocks and waiting for it. Global memory is written after the last arrival: arriving
// would wait for it.
template <int V, bool kAlone>
__device__ inline void route_block(const RouteArgs& args, RouteShared& s, Row row) {
  const Blocks<kAlone> blocks;
  const std::uint32_t block = blocks.rank();
  RowKeys<V> keys;
  Ranked top;
  RowMass mass;
  if (row.live) row.votes = keys.load(row.logits, args.shape.experts, row.lane);
  mark_route(args, RouteMark::kLoaded);
  if (row.votes) {
    if (row.lane == 0) atomicAdd(&s.voters, 1U);
    cast_votes(args, s, row, keys, top, mass);
  } else if (row.live && row.lane < args.shape.top_k) {
    atomicOr(&s.routed[0], 1U << row.lane);  // see choose_for; top_k is at most 32
  }
  mark_route(args, RouteMark::kVoted);
  const bool agree = !rows_choose_alone(args.policy);  // on which experts are active
  if (agree) blocks.arrive();
  if (row.votes) {
    if (!votes_by_mass(args.policy)) weigh_top(args, row, top, mass);
    if (!args.shape.norm_topk_prob)
      mass.all = args.shape.kind == RouterKind::kSigmoid
                     ? kMassOne
                     : mass.top + keys.sum_of_masses(args.shape.kind, mass.max);
  }
  if (agree) {
    blocks.wait();
    const std::uint32_t voters = count_votes(args, s, blocks);
    if (votes_by_margin(args.policy, args.shape)) serve_rows<V, kAlone>(args, s, row, keys, top, mass);
    if (needs_fill(args, s, voters)) fill<kAlone>(args, s, row, top, mass.max, voters);
  }

  mark_route(args, RouteMark::kActive);
  const Choice choice = choose_for(args, s, row, keys, top);
  blocks.arrive();
  mark_route(args, RouteMark::kChosen);
  std::uint32_t retained;
  const float weight = weigh_row(args, row, mass, choice, retained);
  blocks.wait();  // may be the first meeting: no block looks into another before
  tell_row(s, blocks, row, choice, retained);
  const Place place = place_experts(args, s, blocks);
  mark_route(args, RouteMark::kPlaced);
  const bool sums = block == 0 && threadIdx.x / kWarp == kRowsPerBlock - 1;  // the last warp has least to do
  const std::uint32_t routed = sums ? count_routed(s, blocks) : 0;
  __syncwarp();
  blocks.arrive();  // this block reads no other's memory from here on
  if (block == 0) write_experts(args.plan, place);
  write_slot(args.plan, s, row, choice.chosen, weight);
  blocks.wait();  // and what the others said of their rows is there
  if (sums) write_totals(args, s, routed, place.all_active, row.live_rows);
}

}  // namespace lynx::cuda
