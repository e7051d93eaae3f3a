// What a row does first: it finds its exact top-k, and says of each expert whether it has to stay.
#pragma once

#include "kernels/cuda/route_policy.cuh"
#include "kernels/cuda/route_shared.cuh"

namespace lynx::cuda {

struct Row {
  std::uint32_t index = 0;     // in the batch
  std::uint32_t in_block = 0;  // the warp
  std::uint32_t lane = 0;
  std::uint32_t live_rows = 0;  // of the batch
  bool live = false;            // not padding
  bool votes = false;           // live and without a NaN
  bool exact = false;
  const float* logits = nullptr;
};

// What it reads are staged rows: it need not wait for the kernels before.
__device__ inline Row this_row(const RouteArgs& args, std::uint32_t block) {
  Row row;
  row.in_block = warp_index();
  row.lane = threadIdx.x % kWarp;
  row.index = block * kRowsPerBlock + row.in_block;
  row.live_rows = live_count(args.live_rows, args.plan.rows);
  row.live = row.in_block < kRowsPerBlock && row.index < row.live_rows;
  row.exact = row.live && args.exact != nullptr && args.exact[row.index] != 0;
  row.logits = args.logits + std::size_t{row.index} * args.shape.experts;
  return row;
}

// The mass of lane's expert of the exact top-k, and their sum.
__device__ inline void weigh_top(const RouteArgs& args, const Row& row, const Ranked& top, RowMass& mass) {
  mass.own = row.lane < args.shape.top_k ? mass_in_row(args.shape.kind, key_value(top.key), mass.max) : 0;
  mass.top = sum_lanes(mass.own);
}

// What a row says of an expert of its exact top-k, and of itself; see RouteShared.
__device__ inline std::uint32_t bit_of(const Row& row, bool low) {
  return 1U << (row.in_block + (low ? 0 : kRowsPerBlock));
}
__device__ inline void tell_row(RouteShared& s, std::uint32_t block, const Row& row) {
  if (row.lane == 0) atomicOr(&s.voters[block], bit_of(row, row.votes));
}

// energy with k = 1: the row's margin. A lone voter keeps its expert.
template <typename Keys>
__device__ __noinline__ void cast_margin(const RouteArgs& args, RouteShared& s, std::uint32_t block, Row row,
                                         Keys keys, Ranked top, RowMass mass) {
  const std::uint32_t second = keys.largest_mass(args.shape.kind, mass.max);
  if (row.lane != 0) return;
  atomicAdd(&s.energy[block][top.expert], energy_of_margin(mass.top, second));
  atomicOr(&s.votes[block][top.expert], bit_of(row, false));
}

// See DevicePlan::hints.
__device__ inline void hint(const RouteArgs& args, const Row& row, std::uint32_t rank, std::uint32_t expert) {
  const std::uint32_t slot = rank * args.plan.rows + row.index;
  if (slot < kPlanHints) __stcg(args.plan.hints + slot, expert + 1);
}

// Takes the row's first experts, for the slots from `from` on. By way of shared memory: no lane waits for
// another.
template <typename Keys>
__device__ inline void take(RouteShared& s, const Row& row, Keys& keys, std::uint32_t from,
                            std::uint32_t until) {
  Ranked* list = s.chosen[row.in_block] + from;
#pragma unroll 1
  for (std::uint32_t left = until - from; left != 0; --left, ++list) {
    Ranked found;
    if (keys.pop(row.lane, found.key, found.expert)) *list = found;
  }
  __syncwarp();
}
__device__ inline void recall(const RouteShared& s, const Row& row, Ranked& list, std::uint32_t from,
                              std::uint32_t until) {
  if (row.lane >= from && row.lane < until) list = s.chosen[row.in_block][row.lane];
}

// The row's exact top-k, and its votes into this block's words. Returns whether lane's expert is sure to
// stay.
template <typename Keys>
__device__ inline bool cast_votes(const RouteArgs& args, RouteShared& s, std::uint32_t block, const Row& row,
                                  Keys& keys, Ranked& top, RowMass& mass) {
  const std::uint32_t k = args.shape.top_k;
  mass.max = key_value(__reduce_max_sync(kAllLanes, keys.best()));
  take(s, row, keys, 0, k);
  recall(s, row, top, 0, k);
  if (votes_by_mass(args.policy)) weigh_top(args, row, top, mass);
  if (votes_by_margin(args.policy, args.shape)) {
    cast_margin(args, s, block, row, keys, top, mass);
    tell_row(s, block, row);
    return false;
  }
  VoteInput input{row.lane, key_value(top.key), mass.max, mass.own, 0, mass.top};
  if (args.policy == PolicyKind::kEnergy) input.before = sum_before(mass.own, row.lane);
  const bool has_expert = row.lane < k;
  if (args.policy == PolicyKind::kEnergy && has_expert)
    atomicAdd(&s.energy[block][top.expert], energy_of(input));
  const bool keep = vote(args.policy, input, args.shape, args.derived) == Vote::kKeep;
  const bool keeps = (has_expert & (row.exact | keep)) != 0;  // without a branch
  // What the row says of itself, a lane without an expert says with the others, if there is one.
  std::uint32_t* const word = has_expert ? &s.votes[block][top.expert] : &s.voters[block];
  if (row.lane <= k) atomicOr(word, bit_of(row, (keeps | !has_expert) != 0));
  if (k == kWarp) [[unlikely]]
    tell_row(s, block, row);
  return keeps;
}

}  // namespace lynx::cuda
