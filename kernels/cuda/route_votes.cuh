// The first half of routing: every row votes, and every block counts the votes of all blocks. Then every row
// takes its experts from those that stay.
#pragma once

#include "kernels/cuda/route_fill.cuh"
#include "kernels/cuda/route_mail.cuh"
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
  row.in_block = threadIdx.x / kWarp;
  row.lane = threadIdx.x % kWarp;
  row.index = block * kRowsPerBlock + row.in_block;
  row.live_rows = live_count(args.live_rows, args.plan.rows);
  row.live = row.index < row.live_rows;
  row.exact = row.live && args.exact != nullptr && args.exact[row.index] != 0;
  row.logits = args.logits + std::size_t{row.index} * args.shape.experts;
  return row;
}

// The mass of lane's expert of the exact top-k, and their sum.
__device__ inline std::uint32_t weigh_top(const RouteArgs& args, const Row& row, const Ranked& top,
                                          RowMass& mass) {
  const std::uint32_t own =
      row.lane < args.shape.top_k ? mass_of(args.shape.kind, key_value(top.key), mass.max) : 0;
  mass.top = sum_lanes(own);
  return own;
}

// energy with k = 1: the row's margin. A lone voter keeps its expert.
template <int V>
__device__ __noinline__ void cast_margin(const RouteArgs& args, RouteShared& s, Row row, RowKeys<V> keys,
                                         Ranked top, RowMass mass) {
  const std::uint32_t second = keys.largest_mass(args.shape.kind, mass.max);
  if (row.lane != 0) return;
  atomicAdd(&s.energy[top.expert], energy_of_margin(mass.top, second));
  atomicOr(&s.votes[top.expert], 1U << (row.in_block + kRowsPerBlock));
  atomicOr(&s.routed[top.expert / 32], 1U << (top.expert % 32));
}

// See DevicePlan::hints.
__device__ inline void hint(const RouteArgs& args, const Row& row, std::uint32_t rank, std::uint32_t expert) {
  const std::uint32_t slot = rank * args.plan.rows + row.index;
  if (slot < kPlanHints) __stcg(args.plan.hints + slot, expert + 1);
}

// Takes the expert of slot i. True for the lane that held it.
template <int V>
__device__ inline bool take_one(RouteShared& s, const Row& row, RowKeys<V>& keys, Ranked& list,
                                std::uint32_t i, std::uint32_t& expert) {
  std::uint32_t key;
  const bool mine = keys.pop(row.lane, key, expert);
  if (mine) s.chosen[row.in_block][i] = expert;
  if (row.lane == i) list.key = key;
  return mine;
}

// take_ranked, by way of shared memory: no lane waits for another.
template <int V>
__device__ inline void take_rest(RouteShared& s, const Row& row, RowKeys<V>& keys, Ranked& list,
                                 std::uint32_t from, std::uint32_t until) {
  std::uint32_t expert;
#pragma unroll 1
  for (std::uint32_t i = from; i < until; ++i) take_one(s, row, keys, list, i, expert);
  __syncwarp();
}
__device__ inline void recall_experts(const RouteShared& s, const Row& row, Ranked& list, std::uint32_t from,
                                      std::uint32_t until) {
  if (row.lane >= from && row.lane < until) list.expert = s.chosen[row.in_block][row.lane];
}

// The row's exact top-k, and its votes into this block's words.
template <int V>
__device__ inline void cast_votes(const RouteArgs& args, RouteShared& s, const Row& row, RowKeys<V>& keys,
                                  Ranked& top, RowMass& mass) {
  const std::uint32_t k = args.shape.top_k;
  std::uint32_t first;
  if (take_one(s, row, keys, top, 0, first) && !votes_by_margin(args.policy, args.shape))
    hint(args, row, 0, first);  // it always stays
  take_rest(s, row, keys, top, 1, k);
  recall_experts(s, row, top, 0, k);
  mass.max = key_value(__shfl_sync(kAllLanes, top.key, 0));
  const std::uint32_t own = votes_by_mass(args.policy) ? weigh_top(args, row, top, mass) : 0;
  if (votes_by_margin(args.policy, args.shape)) return cast_margin(args, s, row, keys, top, mass);
  VoteInput input{row.lane, key_value(top.key), mass.max, own, 0, mass.top};
  if (args.policy == PolicyKind::kEnergy) input.before = sum_before(own, row.lane);
  if (row.lane >= k) return;
  const Vote cast = row.exact ? Vote::kKeep : vote(args.policy, input, args.shape, args.derived);
  if (args.policy == PolicyKind::kEnergy) atomicAdd(&s.energy[top.expert], energy_of(input));
  // energy: a lone voter keeps all it chose.
  const bool last = (args.policy == PolicyKind::kLynx && vote_lynx(input, args.derived) == Vote::kLast) ||
                    args.policy == PolicyKind::kEnergy;
  const std::uint32_t bit = 1U << row.in_block;
  const std::uint32_t word = (cast == Vote::kKeep ? bit : 0) | (last ? bit << kRowsPerBlock : 0);
  if (cast == Vote::kKeep && row.lane != 0) hint(args, row, row.lane, top.expert);
  if (word != 0) atomicOr(&s.votes[top.expert], word);
  atomicOr(&s.routed[top.expert / 32], 1U << (top.expert % 32));
}

// Every block, for itself: A from the votes of all blocks. Returns the number of voters.
template <bool kAlone>
__device__ inline std::uint32_t count_votes(const RouteArgs& args, RouteShared& s, const Post<kAlone>& post) {
  const std::uint32_t e = threadIdx.x;
  std::uint32_t voters = 0;
  post.each([&](std::uint32_t b) { voters += post.voters(b); });
  std::uint32_t keep = 0;
  std::uint32_t last = 0;
  std::uint32_t energy = 0;
  if (e < args.shape.experts) {
    post.each([&](std::uint32_t b) {
      const std::uint32_t word = post.votes(b, e);
      keep |= word & kRowBits;
      last += __popc(word >> kRowsPerBlock);
      if (args.policy == PolicyKind::kEnergy) energy += post.energy(b, e);
    });
  }
  bool stays = keep != 0 || (last != 0 && last == voters);
  if (args.policy == PolicyKind::kEnergy && voters > 1)
    stays = keep != 0 || stays_by_energy(energy, voters, args.shape.experts, args.derived);
  const std::uint32_t active = __ballot_sync(kAllLanes, stays);
  if (e % kWarp == 0) s.active[e / kWarp] = active;
  __syncthreads();
  return voters;
}

// Uniform over the cluster.
__device__ inline bool needs_fill(const RouteArgs& args, const RouteShared& s, std::uint32_t voters) {
  if (voters == 0) return false;
  if (fills_first(args.policy)) return true;
  return args.policy != PolicyKind::kTopKReduced &&
         count_bits(s.active, threadIdx.x % kWarp) < args.shape.top_k;
}

template <bool kAlone>
__device__ __noinline__ void fill(const RouteArgs& args, RouteShared& s, Row row, Ranked top, float max,
                                  std::uint32_t voters) {
  const Blocks<kAlone> blocks;
  RouteShared& sums = blocks.of(s, 0);
  if (row.votes) add_row(args, sums, row.logits, max, top, row.lane);
  blocks.sync();
  if (blocks.rank() == 0) {
    choose_filled(args, s, voters);
    if (threadIdx.x < kWarp) __syncwarp();
    // Told, not fetched: nobody then reads of a block that may have left.
    if (threadIdx.x < kActiveWords)
      blocks.each([&](std::uint32_t b) { blocks.of(s, b).active[threadIdx.x] = s.active[threadIdx.x]; });
  }
  blocks.sync();
}

// The row's experts: what it keeps of its top-k, then the first of the other active ones. Returns how many it
// keeps.
template <int V>
__device__ inline std::uint32_t choose(const RouteArgs& args, RouteShared& s, const Row& row,
                                       RowKeys<V>& keys, const Ranked& top, std::uint32_t slots,
                                       Ranked& chosen) {
  const bool keeps = top.key != 0 && has_bit(s.active, top.expert);
  const std::uint32_t kept_lanes = __ballot_sync(kAllLanes, keeps);
  const std::uint32_t kept = min(static_cast<std::uint32_t>(__popc(kept_lanes)), slots);
  if (kept == args.shape.top_k) {  // all of it: nothing moves
    chosen = top;
    return kept;
  }
  const std::uint32_t place = __popc(kept_lanes & lanes_below(row.lane));
  if (keeps) {
    s.chosen[row.in_block][place] = top.expert;
    s.chosen_key[row.in_block][place] = top.key;
  }
  __syncwarp();
  if (row.lane < kept) chosen = {s.chosen[row.in_block][row.lane], s.chosen_key[row.in_block][row.lane]};
  if (kept < slots) {
    keys.keep_only(s.active, row.lane);
    take_rest(s, row, keys, chosen, kept, slots);
    recall_experts(s, row, chosen, kept, slots);
  }
  return kept;
}

// What a row takes: its first `slots` slots, of which the first `kept` are from its exact top-k.
struct Choice {
  Ranked chosen;
  std::uint32_t slots = 0;
  std::uint32_t kept = 0;
};

template <int V>
__device__ inline Choice choose_for(const RouteArgs& args, RouteShared& s, const Row& row, RowKeys<V>& keys,
                                    const Ranked& top) {
  Choice choice;
  if (row.votes) {
    choice.slots =
        args.policy == PolicyKind::kTopKReduced && !row.exact ? args.derived.keep : args.shape.top_k;
    if (!rows_choose_alone(args.policy)) {
      choice.kept = choose(args, s, row, keys, top, choice.slots, choice.chosen);
    } else {
      choice.kept = choice.slots;
      if (row.lane < choice.slots) choice.chosen = top;
    }
  } else if (row.live && row.lane < args.shape.top_k) {
    choice.chosen.expert =
        row.lane;  // a NaN: some k experts, so that shapes hold; its own output alone is lost
  }
  if (choice.chosen.expert != ExpertPlan::kNoExpert)
    atomicOr(&s.used[choice.chosen.expert], 1U << row.in_block);
  return choice;
}

// The weight of lane's slot. retained: as weigh_lane says it.
__device__ inline float weigh_row(const RouteArgs& args, const Row& row, const RowMass& mass,
                                  const Choice& choice, std::uint32_t& retained) {
  const std::uint32_t k = args.shape.top_k;
  float weight = 0;
  retained = 1U << 24;
  if (row.votes) {
    weight = weigh_lane(args.shape, args.derived.weights, mass, choice.chosen, choice.slots, choice.kept,
                        row.lane, retained);
    if (row.lane >= choice.slots) weight = 0;
  } else if (row.live && row.lane < k) {
    weight = __fdiv_rn(1.0F, static_cast<float>(k));
  }
  return weight;
}

}  // namespace lynx::cuda
