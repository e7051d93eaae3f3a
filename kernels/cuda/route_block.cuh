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

// What a warp with a row has found so far. Of a warp with experts: nothing.
template <typename Keys>
struct Found {
  Keys keys{};
  Ranked top;  // the exact top-k, a lane each; then what the row takes
  RowMass mass;
  float weight = 0;  // of lane's expert
};

// A warp with a row: its votes. Returns whether lane's expert is sure to stay.
template <typename Keys>
__device__ inline bool vote_as_row(const RouteArgs& args, RouteShared& s, std::uint32_t block, Row& row,
                                   Found<Keys>& found) {
  if (row.live) row.votes = found.keys.load(row.logits, args.shape.experts, row.lane);
  mark_route(args, RouteMark::kLoaded);
  bool sure = false;
  if (row.votes) [[likely]]
    sure = cast_votes(args, s, block, row, found.keys, found.top, found.mass);
  else if (row.live)
    tell_row(s, block, row);
  mark_route(args, RouteMark::kVoted);
  return sure;
}

// What a row did not need for its votes, while others count them.
template <typename Keys>
__device__ inline void hint_and_weigh(const RouteArgs& args, const Row& row, bool sure, Found<Keys>& found) {
  if (!row.votes) return;
  if (sure) hint(args, row, row.lane, found.top.expert);
  found.weight = weigh_kept(args, row, found.keys, found.top, found.mass);
}

// A warp with 32 experts, a thread each, once the block's rows have voted: which rows take thread e's, if
// none chooses again. Returns what comes before it in its warp.
template <bool kAlone>
__device__ inline std::uint32_t count_and_place(const RouteArgs& args, RouteShared& s,
                                                const Post<kAlone>& post, std::uint32_t e) {
  post.exchange_votes();
  return place_in_warp<kAlone>(s, e, count_votes<kAlone>(args, s, e));
}

// Rows may have to choose again: what is still added to A, which is known by the votes. All threads of the
// cluster; what has no row has no votes.
template <int V, bool kAlone, typename Keys>
__device__ inline void complete_active(const RouteArgs& args, const RouteArgs& whole, RouteShared& s,
                                       const Row& row, const Found<Keys>& found) {
  if (votes_by_margin(args.policy, args.shape))
    serve_rows<V, kAlone>(whole, s, row, found.keys, found.top, found.mass);
  const std::uint32_t voters = count_voters(s).vote;
  if (needs_fill(args, count_active<V>(s), voters)) [[unlikely]]
    fill<kAlone>(whole, s, row, found.top, found.mass.max, voters);
}

// A warp with a row, once it has chosen from all of A.
template <bool kAlone, typename Keys>
__device__ inline void weigh_chosen(const RouteArgs& args, const Post<kAlone>& post, const Row& row,
                                    const Choice& choice, Found<Keys>& found) {
  std::uint32_t retained = kAllRetained;
  if (!row.votes || choice.kept < args.shape.top_k)
    found.weight = weigh_row(args, row, found.mass, choice, retained);
  found.top = choice.chosen;
  if (row.lane == 0) post.tell_row(row.index, retained, choice.slots - choice.kept);
}

// A warp with experts, once the block's rows have chosen: as count_and_place.
template <bool kAlone>
__device__ inline std::uint32_t place_chosen(const RouteArgs& args, RouteShared& s, const Post<kAlone>& post,
                                             std::uint32_t e) {
  post.exchange_brings();
  const std::uint64_t kept = has_bit(s.active, e) ? keepers(args, votes_for<kAlone>(s, e)) : 0;
  return place_in_warp<kAlone>(s, e, kept | brings_of<kAlone>(s, e));
}

// Block 0's warps with experts. moves: rows have chosen again.
template <int V, bool kAlone>
__device__ inline void write_experts(const RouteArgs& args, const RouteShared& s, const Post<kAlone>& post,
                                     std::uint32_t e, std::uint32_t before, std::uint32_t live_rows,
                                     bool moves) {
  if (post.rank() != 0) return;
  write_expert<V>(args.plan, s, e, before);
  if (e / kWarp != V - 1) return;
  if (moves) post.hear_rows();
  write_totals(args, s, live_rows, moves);
}

// What a block does once the logits are there: rows vote, experts are counted while rows weigh what they
// have; and, if some row of the batch has lost an expert, rows choose, and are counted and weighed again.
// whole: the same as args, for steps that are rare and have code of their own.
template <int V, bool kAlone>
__device__ inline void route_block(const RouteArgs& args, const RouteArgs& whole, RouteShared& s,
                                   const Post<kAlone>& post, Row row) {
  Found<typename KeysOf<V>::Type> found;
  const bool has_experts = post.has_experts();
  // With experts: thread e's. Not by way of threadIdx: ptxas 13.0 then took the address of s.rows_of[e] from
  // a register in which a loop of clear_votes had counted on.
  const std::uint32_t e = (row.in_block - kRowsPerBlock) * kWarp + row.lane;
  std::uint32_t before = 0;  // what comes before e in its warp

  const bool sure = !has_experts && vote_as_row(args, s, post.rank(), row, found);
  __syncthreads();
  if (has_experts)
    before = count_and_place(args, s, post, e);
  else
    hint_and_weigh(args, row, sure, found);
  __syncthreads();
  mark_route(args, RouteMark::kActive);

  const bool moves = rows_choose_again<V>(s);
  if (moves) {
    complete_active<V, kAlone>(args, whole, s, row, found);
    Choice choice;
    if (!has_experts) choice = choose_for(args, s, post.rank(), row, found.keys, found.top);
    __syncthreads();
    mark_route(args, RouteMark::kChosen);
    if (has_experts)
      before = place_chosen(args, s, post, e);
    else
      weigh_chosen(args, post, row, choice, found);
    __syncthreads();
  }
  mark_route(args, RouteMark::kPlaced);

  if (has_experts)
    write_experts<V>(args, s, post, e, before, row.live_rows, moves);
  else
    write_slot<V>(args.plan, s, row, found.top, found.weight);
}

}  // namespace lynx::cuda
