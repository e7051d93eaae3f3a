// Routing as one block of a cluster does it; the cluster may be this block alone.
#pragma once

#include "kernels/cuda/route_choose.cuh"
#include "kernels/cuda/route_count.cuh"
#include "kernels/cuda/route_fill.cuh"
#include "kernels/cuda/route_mail.cuh"
#include "kernels/cuda/route_place.cuh"
#include "kernels/cuda/route_serve.cuh"
#include "kernels/cuda/route_sorted.cuh"

namespace lynx::cuda {

template <int V>
__device__ inline void clear_votes(const RouteArgs& args, RouteShared& s, std::uint32_t block) {
  constexpr std::uint32_t kQuads = kMostBlocks * kMaxRouteExperts / 4;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < kQuads; i += kRouteThreads<V>) {
    reinterpret_cast<uint4*>(s.votes)[i] = {};
    reinterpret_cast<uint4*>(s.brings)[i] = {};
    reinterpret_cast<uint4*>(s.energy)[i] = {};
  }
  if (threadIdx.x < kActiveWords) {
    s.active[threadIdx.x] = 0;
    s.scan[threadIdx.x] = 0;
    s.again[threadIdx.x] = 0;
    s.routed[threadIdx.x] = 0;
    s.brought[threadIdx.x] = 0;
  }
  if (threadIdx.x < kMostBlocks) s.voters[threadIdx.x] = 0;
  if (block == 0) {
#pragma unroll 1
    for (std::uint32_t e = threadIdx.x; e < args.shape.experts; e += kRouteThreads<V>) s.probability[e] = 0;
#pragma unroll 1
    for (std::uint32_t i = threadIdx.x; i < args.shape.experts * digits_of(args); i += kRouteThreads<V>)
      digits_in(args, s)[i] = 0;
  }
  __syncthreads();
}

// The weight of lane's expert if the row keeps its exact top-k.
template <typename Keys>
__device__ inline float weigh_kept(const RouteArgs& args, const Row& row, const Keys& keys, const Ranked& top,
                                   RowMass& mass) {
  if (!votes_by_mass(args.policy)) weigh_top(args, row, top, mass);
  if (!args.shape.norm_topk_prob) [[unlikely]]
    mass.all = args.shape.kind == RouterKind::kSigmoid
                   ? kMassOne
                   : mass.top + keys.sum_of_masses(args.shape.kind, mass.max);
  const float weight = weigh_part(args.shape, mass, mass.own, mass.top, args.shape.top_k);
  return row.lane < args.shape.top_k ? weight : 0;
}

// Once A is known by the votes, and rows may have to choose again: what is still added to it. All threads of
// the cluster; what has no row has no votes.
template <int V, bool kAlone, typename Keys>
__device__ inline void complete_active(const RouteArgs& args, const RouteArgs& whole, RouteShared& s,
                                       const Row& row, const Keys& keys, const Ranked& top,
                                       const RowMass& mass) {
  if (votes_by_margin(args.policy, args.shape)) serve_rows<V, kAlone>(whole, s, row, keys, top, mass);
  const std::uint32_t voters = count_voters(s).vote;
  if (needs_fill(args, count_active<V>(s), voters)) [[unlikely]]
    fill<kAlone>(whole, s, row, top, mass.max, voters);
}

// A warp with a row. What it does not need at once, it does between saying something and hearing from the
// others. whole: the same as args, for steps that are rare and have code of their own.
template <int V, bool kAlone>
__device__ inline void route_row(const RouteArgs& args, const RouteArgs& whole, RouteShared& s,
                                 const Post<V, kAlone>& post, Row row) {
  typename KeysOf<V>::Type keys{};
  Ranked top;
  RowMass mass;
  Choice choice;
  if (row.live) row.votes = keys.load(row.logits, args.shape.experts, row.lane);
  mark_route(args, RouteMark::kLoaded);
  bool sure = false;
  if (row.votes) [[likely]]
    sure = cast_votes(args, s, post.rank(), row, keys, top, mass);
  else if (row.live)
    tell_row(s, post.rank(), row);
  mark_route(args, RouteMark::kVoted);
  post.row_has_spoken();

  float weight = 0;
  if (row.votes) {
    if (sure) hint(args, row, row.lane, top.expert);
    weight = weigh_kept(args, row, keys, top, mass);
  }
  __syncthreads();
  const bool moves = rows_choose_again<V>(s);
  mark_route(args, RouteMark::kActive);
  if (moves) {
    complete_active<V, kAlone>(args, whole, s, row, keys, top, mass);
    choice = choose_for(args, s, post.rank(), row, keys, top);
    post.row_has_spoken();
    mark_route(args, RouteMark::kChosen);
    std::uint32_t retained = kAllRetained;
    if (!row.votes || choice.kept < args.shape.top_k) weight = weigh_row(args, row, mass, choice, retained);
    if (row.lane == 0) post.tell_row(row.index, retained, choice.slots - choice.kept);
    __syncthreads();
  } else if (row.votes && row.lane < args.shape.top_k) {
    choice.chosen = top;
  }
  mark_route(args, RouteMark::kPlaced);
  write_slot<V>(args.plan, s, row, choice.chosen, weight);
}

// A warp with 32 experts, a thread each.
template <int V, bool kAlone>
__device__ inline void route_experts(const RouteArgs& args, const RouteArgs& whole, RouteShared& s,
                                     const Post<V, kAlone>& post, const Row& none) {
  const std::uint32_t e = threadIdx.x - kRowThreads;
  post.tell_votes();
  post.hear_votes();
  std::uint32_t before = place_in_warp<kAlone>(s, e, count_votes<kAlone>(args, s, e));
  __syncthreads();
  const bool moves = rows_choose_again<V>(s);
  if (moves) {
    complete_active<V, kAlone>(args, whole, s, none, typename KeysOf<V>::Type{}, {}, {});
    post.tell_brings();
    post.hear_brings();
    const std::uint64_t kept = has_bit(s.active, e) ? keepers(args, votes_for<kAlone>(s, e)) : 0;
    before = place_in_warp<kAlone>(s, e, kept | brings_of<kAlone>(s, e));
    __syncthreads();
  }
  if (post.rank() != 0) return;
  write_expert<V>(args.plan, s, e, before);
  if (e / kWarp != V - 1) return;
  if (moves) post.hear_rows();
  write_totals(args, s, none.live_rows, moves);
}

}  // namespace lynx::cuda
