// What one row does in route_portable.cu. Nothing of a row stays in registers between the steps: its exact
// top-k lies in shared memory, its logits are read again.
#pragma once

#include "kernels/cuda/route.h"
#include "kernels/cuda/route_policy.cuh"
#include "kernels/cuda/route_row.cuh"

namespace lynx::cuda::portable {

inline constexpr std::uint32_t kThreads = 512;  // at least one an expert
inline constexpr std::uint32_t kWarps = kThreads / kWarp;
inline constexpr std::uint32_t kWords = kMaxRouteExperts / 32;
static_assert(kThreads >= kMaxRouteExperts, "a thread an expert");

struct RouteShared {
  std::uint64_t used[kMaxRouteExperts];         // bit r: row r takes the expert
  std::uint64_t probability[kMaxRouteExperts];  // summed over voters, when A is filled up
  std::uint32_t last[kMaxRouteExperts];         // rows that would have the expert stay if all voters say so
  std::uint32_t energy[kMaxRouteExperts];       // energy: the rows' sum
  std::uint32_t start[kMaxRouteExperts];        // the expert's first pair in the transposed plan
  std::uint32_t active[kWords];                 // the set A, a bit an expert
  std::uint32_t routed[kWords];                 // experts of the rows' exact top-k sets
  std::uint32_t brought[kWords];                // energy with k = 1: by rows that nothing else serves
  std::uint32_t scan[kWarps];
  std::uint32_t voters, activated;
  DevicePlanRow rows[kMaxRouteRows];
  bool votes[kMaxRouteRows];
  std::uint16_t top[kMaxRouteRows][kMaxRouteTopK];  // of the rows that vote
  std::uint8_t digits[];                            // [N, bins + 1], lynx: votes by bin, when A is filled up
};

__host__ __device__ inline std::uint32_t digits_of(const RouteArgs& args) {
  return args.policy == PolicyKind::kLynx ? args.derived.bins + 1 : 0;
}
inline std::size_t shared_bytes(const RouteArgs& args) {
  return sizeof(RouteShared) + args.shape.experts * digits_of(args);
}

__device__ inline bool has_bit(const std::uint32_t* words, std::uint32_t e) {
  return (words[e / 32] >> (e % 32) & 1) != 0;
}
__device__ inline void set_bit(std::uint32_t* words, std::uint32_t e) {
  atomicOr(&words[e / 32], 1U << (e % 32));
}

struct Row {
  std::uint32_t index, lane;
  bool live, exact;
  const float* logits;
};

// Every warp for rows of its own.
template <typename Visit>
__device__ inline void for_each_row(const RouteArgs& args, const Visit& visit) {
  const std::uint32_t live = live_count(args.live_rows, args.plan.rows);
  for (std::uint32_t r = threadIdx.x / kWarp; r < args.plan.rows; r += kWarps)
    visit(Row{r, threadIdx.x % kWarp, r < live, r < live && args.exact != nullptr && args.exact[r] != 0,
              args.logits + std::size_t{r} * args.shape.experts});
}

// The row's exact top-k, its masses, and the keys of its other experts.
template <int V>
struct RowState {
  RowKeys<V> keys;
  Ranked top;
  RowMass mass;

  __device__ void weigh(const RouteArgs& args, const Row& row) {
    mass.max = key_value(__shfl_sync(kAllLanes, top.key, 0));
    mass.own = row.lane < args.shape.top_k ? mass_of(args.shape.kind, key_value(top.key), mass.max) : 0;
    mass.top = sum_lanes(mass.own);
    mass.all = args.shape.kind == RouterKind::kSigmoid
                   ? kMassOne
                   : mass.top + keys.sum_of_masses(args.shape.kind, mass.max);
  }

  // Of a row that has voted.
  __device__ void recall(const RouteArgs& args, const RouteShared& s, const Row& row) {
    keys.load(row.logits, args.shape.experts, row.lane);
    for (std::uint32_t i = 0; i < args.shape.top_k; ++i) {
      const std::uint32_t expert = s.top[row.index][i];
      if (row.lane == i) top = {expert, rank_key(row.logits[expert])};
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (expert == keys.expert_of(v, row.lane)) keys.key[v] = 0;
    }
    weigh(args, row);
  }
};

// Lane's expert of the exact top-k.
__device__ inline void vote_for(const RouteArgs& args, RouteShared& s, const Row& row, const Ranked& top,
                                const VoteInput& input) {
  if (row.exact || vote(args.policy, input, args.shape, args.derived) == Vote::kKeep)
    set_bit(s.active, top.expert);
  if (args.policy == PolicyKind::kEnergy) {
    atomicAdd(&s.energy[top.expert], energy_of(input));
    atomicAdd(&s.last[top.expert], 1U);  // a lone voter keeps all it chose
  } else if (args.policy == PolicyKind::kLynx && vote_lynx(input, args.derived) == Vote::kLast) {
    atomicAdd(&s.last[top.expert], 1U);
  }
}

template <int V>
__device__ inline void cast_votes(const RouteArgs& args, RouteShared& s, const Row& row) {
  if (!row.live) return;
  const std::uint32_t k = args.shape.top_k;
  RowState<V> state;
  const bool votes = state.keys.load(row.logits, args.shape.experts, row.lane);
  if (row.lane == 0) s.votes[row.index] = votes;
  if (!votes) {  // a NaN: see choose
    if (row.lane < k) set_bit(s.routed, row.lane);
    return;
  }
  if (row.lane == 0) atomicAdd(&s.voters, 1U);
  take_ranked(state.keys, state.top, 0, k, row.lane);
  state.weigh(args, row);
  const Ranked& top = state.top;
  const bool by_margin = votes_by_margin(args.policy, args.shape);
  const std::uint32_t second = by_margin ? state.keys.largest_mass(args.shape.kind, state.mass.max) : 0;
  const std::uint64_t before = sum_before(state.mass.own, row.lane);
  if (row.lane >= k) return;
  s.top[row.index][row.lane] = static_cast<std::uint16_t>(top.expert);
  set_bit(s.routed, top.expert);
  if (by_margin) {
    atomicAdd(&s.energy[top.expert], energy_of_margin(state.mass.top, second));
    atomicAdd(&s.last[top.expert], 1U);
    return;
  }
  vote_for(args, s, row, top,
           {row.lane, key_value(top.key), state.mass.max, state.mass.own, before, state.mass.top});
}

// energy with k = 1: a row brings its first if nothing in A has half of its probability, or if it is exact.
template <int V>
__device__ inline void serve(const RouteArgs& args, RouteShared& s, const Row& row) {
  if (!row.live || !s.votes[row.index]) return;
  RowState<V> state;
  state.recall(args, s, row);
  const std::uint32_t bits = state.keys.bits_of(s.active, row.lane);
  bool served = row.lane == 0 && has_bit(s.active, state.top.expert);
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (state.keys.key[v] != 0 && (bits >> v & 1) != 0) {
      const std::uint64_t mass = mass_of(args.shape.kind, key_value(state.keys.key[v]), state.mass.max);
      served |= 2 * mass >= state.mass.top;
    }
  if (__any_sync(kAllLanes, served) != 0 && !row.exact) return;
  if (row.lane == 0) set_bit(s.brought, state.top.expert);
}

// What the row keeps of its top-k, then the first of the other active experts. Returns how many it keeps.
template <int V>
__device__ inline std::uint32_t choose_experts(const RouteShared& s, const Row& row, RowState<V>& state,
                                               std::uint32_t slots, Ranked& chosen) {
  const bool keeps = state.top.key != 0 && has_bit(s.active, state.top.expert);
  const std::uint32_t kept_lanes = __ballot_sync(kAllLanes, keeps);
  const std::uint32_t kept = min(static_cast<std::uint32_t>(__popc(kept_lanes)), slots);
  const std::uint32_t from = __fns(kept_lanes, 0, static_cast<int>(row.lane) + 1) % kWarp;  // no such: unused
  const std::uint32_t expert = __shfl_sync(kAllLanes, state.top.expert, from);
  const std::uint32_t key = __shfl_sync(kAllLanes, state.top.key, from);
  if (row.lane < kept) chosen = {expert, key};
  if (kept < slots) {
    state.keys.keep_only(s.active, row.lane);
    take_ranked(state.keys, chosen, kept, slots, row.lane);
  }
  return kept;
}

// The row's experts and weights, into the plan by rows.
template <int V>
__device__ inline void choose(const RouteArgs& args, RouteShared& s, const Row& row) {
  const std::uint32_t k = args.shape.top_k;
  Ranked chosen;
  float weight = 0;
  DevicePlanRow outcome{.remapped = 0, .retained_q24 = kAllRetained};
  if (row.live && s.votes[row.index]) {
    RowState<V> state;
    state.recall(args, s, row);
    const bool fewer = args.policy == PolicyKind::kTopKReduced && !row.exact;
    const std::uint32_t slots = fewer ? args.derived.keep : k;
    const std::uint32_t kept = choose_experts(s, row, state, slots, chosen);
    weight = weigh_lane(args.shape, args.derived.weights, state.mass, chosen, slots, kept, row.lane,
                        outcome.retained_q24);
    if (row.lane >= slots) weight = 0;
    outcome.remapped = slots - kept;
  } else if (row.live && row.lane < k) {  // a NaN: some k experts, so that shapes hold
    chosen.expert = row.lane;
    weight = __fdiv_rn(1.0F, static_cast<float>(k));
  }
  if (row.lane == 0) s.rows[row.index] = outcome;
  if (row.lane >= k) return;
  args.plan.expert_of[row.index * k + row.lane] = chosen.expert;
  args.plan.weight_of[row.index * k + row.lane] = weight;
  if (chosen.expert != ExpertPlan::kNoExpert)
    atomicOr(reinterpret_cast<unsigned long long*>(&s.used[chosen.expert]), 1ULL << row.index);
}

// Lane's slot, into the plan by experts: by rising row.
__device__ inline void write_pair(const RouteArgs& args, const RouteShared& s, const Row& row) {
  const DevicePlan& plan = args.plan;
  if (row.lane >= plan.top_k) return;
  const std::uint32_t slot = row.index * plan.top_k + row.lane;
  const std::uint32_t expert = plan.expert_of[slot];
  if (expert == ExpertPlan::kNoExpert) return;
  const std::uint64_t rows_before = s.used[expert] & ((std::uint64_t{1} << row.index) - 1);
  const std::uint32_t pair = s.start[expert] + static_cast<std::uint32_t>(__popcll(rows_before));
  plan.row_of[pair] = row.index;
  plan.slot_of[pair] = row.lane;
  plan.pair_weight[pair] = plan.weight_of[slot];
}

}  // namespace lynx::cuda::portable
