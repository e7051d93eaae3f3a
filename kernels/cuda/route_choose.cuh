// What a row does once it is known which experts are active: it takes its own of them, and others for those
// that it has lost.
#pragma once

#include "kernels/cuda/route_votes.cuh"

namespace lynx::cuda {

// The row's experts: what it keeps of its top-k, then the first of the other active ones. Returns how many it
// keeps.
template <typename Keys>
__device__ inline std::uint32_t choose(const RouteArgs& args, RouteShared& s, const Row& row, Keys& keys,
                                       const Ranked& top, std::uint32_t slots, Ranked& chosen) {
  const bool keeps = top.key != 0 && has_bit(s.active, top.expert);
  const std::uint32_t kept_lanes = __ballot_sync(kAllLanes, keeps);
  const std::uint32_t kept = min(static_cast<std::uint32_t>(__popc(kept_lanes)), slots);
  if (kept == args.shape.top_k) {  // all of it: nothing moves
    chosen = top;
    return kept;
  }
  const std::uint32_t place = __popc(kept_lanes & lanes_below(row.lane));
  if (keeps) s.chosen[row.in_block][place] = top;
  if (kept < slots) {
    keys.keep_only(s.active, row.lane);
    take(s, row, keys, kept, slots);
  }
  __syncwarp();
  recall(s, row, chosen, 0, slots);
  return kept;
}

// What a row takes: its first `slots` slots, of which the first `kept` are from its exact top-k.
struct Choice {
  Ranked chosen;
  std::uint32_t slots = 0;
  std::uint32_t kept = 0;
};

template <typename Keys>
__device__ inline Choice choose_for(const RouteArgs& args, RouteShared& s, std::uint32_t block,
                                    const Row& row, Keys& keys, const Ranked& top) {
  Choice choice;
  if (row.votes) {
    choice.slots =
        args.policy == PolicyKind::kTopKReduced && !row.exact ? args.derived.keep : args.shape.top_k;
    if (args.policy != PolicyKind::kTopKReduced) {
      choice.kept = choose(args, s, row, keys, top, choice.slots, choice.chosen);
    } else {
      choice.kept = choice.slots;
      if (row.lane < choice.slots) choice.chosen = top;
    }
  } else if (row.live && row.lane < args.shape.top_k) {
    choice.chosen.expert =
        row.lane;  // a NaN: some k experts, so that shapes hold; its own output alone is lost
  }
  if (choice.chosen.expert != ExpertPlan::kNoExpert && row.lane >= choice.kept)
    atomicOr(&s.brings[block][choice.chosen.expert], 1U << row.in_block);
  return choice;
}

// The weight of lane's slot. retained: as weigh_lane says it of a row that votes; of others it stays.
__device__ inline float weigh_row(const RouteArgs& args, const Row& row, const RowMass& mass,
                                  const Choice& choice, std::uint32_t& retained) {
  const std::uint32_t k = args.shape.top_k;
  float weight = 0;
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
