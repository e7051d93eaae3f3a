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

// All threads of the block, after clear_votes and Post::open. What one row does not need at once, it does
// between telling the other blocks something and hearing from them.
template <int V, bool kAlone>
__device__ inline void route_block(const RouteArgs& args, RouteShared& s, const Post<kAlone>& post, Row row) {
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
  if (agree) post.tell_votes();
  if (row.votes) {
    if (!votes_by_mass(args.policy)) weigh_top(args, row, top, mass);
    if (!args.shape.norm_topk_prob)
      mass.all = args.shape.kind == RouterKind::kSigmoid
                     ? kMassOne
                     : mass.top + keys.sum_of_masses(args.shape.kind, mass.max);
  }
  if (agree) {
    post.hear_votes();
    const std::uint32_t voters = count_votes(args, s, post);
    if (votes_by_margin(args.policy, args.shape)) serve_rows<V, kAlone>(args, s, row, keys, top, mass);
    if (needs_fill(args, s, voters)) fill<kAlone>(args, s, row, top, mass.max, voters);
  }

  mark_route(args, RouteMark::kActive);
  const Choice choice = choose_for(args, s, row, keys, top);
  post.tell_used();
  mark_route(args, RouteMark::kChosen);
  std::uint32_t retained;
  const float weight = weigh_row(args, row, mass, choice, retained);
  if (row.lane == 0) post.tell_row(row.index, retained, choice.slots - choice.kept);
  post.hear_used();
  const Place place = place_experts(args, s, post);
  mark_route(args, RouteMark::kPlaced);
  if (post.rank() == 0) write_experts(args.plan, place);
  write_slot(args.plan, s, row, choice.chosen, weight);
  if (post.rank() != 0 || row.in_block != kRowsPerBlock - 1) return;  // the last warp has least to do
  post.hear_rows();
  write_totals(args, s, count_routed(post), place.all_active, row.live_rows);
}

}  // namespace lynx::cuda
