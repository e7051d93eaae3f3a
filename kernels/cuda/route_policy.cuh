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
  std::uint32_t mass;  // its mass and the sum over the row's top-k
  std::uint64_t top_mass;
};

__device__ inline Vote vote_lynx(const VoteInput& in, const DerivedPolicy& policy) {
  const std::uint32_t last = policy.bins - 1;
  return affinity_bin(gap_below(in.max, in.z), policy.alpha, last) < last ? Vote::kKeep : Vote::kLast;
}

__device__ inline Vote vote_share(const VoteInput& in, const RouterShape& shape,
                                  const DerivedPolicy& policy) {
  const std::uint64_t mass = in.mass;
  return ((mass * shape.top_k) << 16) >= in.top_mass * policy.share_q16 ? Vote::kKeep : Vote::kNone;
}

__device__ inline Vote vote(PolicyKind kind, const VoteInput& in, const RouterShape& shape,
                            const DerivedPolicy& policy) {
  if (in.rank == 0) return Vote::kKeep;  // a row's first always stays
  switch (kind) {
    case PolicyKind::kOff:
      return Vote::kKeep;
    case PolicyKind::kLynx:
      return vote_lynx(in, policy);
    case PolicyKind::kShare:
      return vote_share(in, shape, policy);
    case PolicyKind::kOea:
    case PolicyKind::kTopKReduced:
      return in.rank < policy.keep ? Vote::kKeep : Vote::kNone;
    case PolicyKind::kXshare:
      return Vote::kNone;
  }
  return Vote::kNone;
}

// Needs the mass of each expert: only then is it computed before the vote.
__device__ inline bool votes_by_mass(PolicyKind kind) { return kind == PolicyKind::kShare; }

// Whether the policy itself chooses by summed probability before the rows' first experts are added.
__device__ inline bool fills_first(PolicyKind kind) { return kind == PolicyKind::kXshare; }

}  // namespace lynx::cuda
