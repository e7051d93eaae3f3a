// The rules of the policies on the device: what one row says about one of its experts, and what the batch
// makes of it. One small function each; the sources are kernels/lynx/{lynx,share,oea,...}.cc.
#pragma once

#include <cstdint>

#include "kernels/cuda/route_row.cuh"
#include "kernels/lynx/derived_policy.h"

namespace lynx::cuda {

enum class Vote : std::uint32_t {
  kNone,
  kKeep,  // this row alone makes the expert stay
  kLast,  // lynx: a vote in the last bin; the expert stays if every voter votes so
};

struct VoteInput {
  std::uint32_t rank;  // of the expert in the row's exact top-k
  float z, max;        // its logit and the row's largest
  std::uint32_t mass;  // its mass, that of the ranks before it, and the sum over the row's top-k: only where
  std::uint64_t before;  // votes_by_mass
  std::uint64_t top_mass;
};

__device__ inline Vote vote_lynx(const VoteInput& in, const DerivedPolicy& policy) {
  // affinity_bin(...) < last, without the bin.
  const auto last = static_cast<float>(policy.bins - 1);
  return policy.alpha * gap_below(in.max, in.z) < last ? Vote::kKeep : Vote::kLast;
}

__device__ inline Vote vote_share(const VoteInput& in, const RouterShape& shape,
                                  const DerivedPolicy& policy) {
  const std::uint64_t mass = in.mass;
  return ((mass * shape.top_k) << 16) >= in.top_mass * policy.share_q16 ? Vote::kKeep : Vote::kNone;
}

// energy: what a row of k > 1 experts is promised; the rest is decided by the sum, see stays_by_energy.
__device__ inline Vote vote_energy(const VoteInput& in) {
  return 2 * in.before < in.top_mass ? Vote::kKeep : Vote::kNone;
}

// energy: the square of the row's share, Q24: 64 rows fit 32 bits.
__device__ inline std::uint32_t energy_of(const VoteInput& in) {
  if (in.top_mass == 0) return 0;
  const std::uint64_t share = ratio<16>(in.mass, in.top_mass);
  return static_cast<std::uint32_t>((share * share) >> 8);
}

// energy with one expert to a row: its share says nothing, its margin over the second does.
__device__ inline bool votes_by_margin(PolicyKind kind, const RouterShape& shape) {
  return kind == PolicyKind::kEnergy && shape.top_k == 1;
}

// The square of (first - second) / first, Q24.
__device__ inline std::uint32_t energy_of_margin(std::uint64_t first, std::uint64_t second) {
  if (first == 0) return 0;
  const std::uint64_t margin = ratio<16>(first - second, first);
  return static_cast<std::uint32_t>((margin * margin) >> 8);
}

__device__ inline bool stays_by_energy(std::uint32_t energy, std::uint32_t voters, std::uint32_t experts,
                                       const DerivedPolicy& policy) {
  return std::uint64_t{energy} * experts * (voters + 1) >= (std::uint64_t{voters} * policy.energy_q16) << 8;
}

__device__ inline Vote vote_beyond_first(PolicyKind kind, const VoteInput& in, const RouterShape& shape,
                                         const DerivedPolicy& policy) {
  switch (kind) {
    case PolicyKind::kOff:
      return Vote::kKeep;
    case PolicyKind::kLynx:
      return vote_lynx(in, policy);
    case PolicyKind::kShare:
      return vote_share(in, shape, policy);
    case PolicyKind::kEnergy:
      return vote_energy(in);
    case PolicyKind::kOea:
    case PolicyKind::kTopKReduced:
      return in.rank < policy.keep ? Vote::kKeep : Vote::kNone;
    case PolicyKind::kXshare:
      return Vote::kNone;
    case PolicyKind::kSweep:
    case PolicyKind::kDenyRank:
      break;  // of the laboratory: check_route_policy refuses them
  }
  return Vote::kNone;
}
__device__ inline Vote vote(PolicyKind kind, const VoteInput& in, const RouterShape& shape,
                            const DerivedPolicy& policy) {
  const Vote beyond_first = vote_beyond_first(kind, in, shape, policy);
  return in.rank == 0 ? Vote::kKeep : beyond_first;  // a row's first always stays
}

// Needs the mass of each expert: only then is it computed before the vote.
__device__ inline bool votes_by_mass(PolicyKind kind) {
  return kind == PolicyKind::kShare || kind == PolicyKind::kEnergy;
}

// Whether the policy itself chooses by summed probability before the rows' first experts are added.
__device__ inline bool fills_first(PolicyKind kind) { return kind == PolicyKind::kXshare; }

}  // namespace lynx::cuda
