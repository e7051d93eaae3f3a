// What all rows say of an expert, counted by a thread of its own: whether it is in A, and who takes it.
#pragma once

#include "kernels/cuda/route_policy.cuh"
#include "kernels/cuda/route_shared.cuh"

namespace lynx::cuda {

// What all blocks say.
struct Voters {
  std::uint32_t vote = 0;
  std::uint32_t have_nan = 0;
};
__device__ inline Voters count_voters(const RouteShared& s) {
  const uint4 by_block = *reinterpret_cast<const uint4*>(s.voters);
  const auto low = [](std::uint32_t a, std::uint32_t b) { return (a & 0xFFFFU) | b << 16; };
  return {
      static_cast<std::uint32_t>(__popc(low(by_block.x, by_block.y)) + __popc(low(by_block.z, by_block.w))),
      (by_block.x | by_block.y | by_block.z | by_block.w) >> 16};
}

// What the rows of the batch say of one expert, a bit a row: keep and let go as in RouteShared::votes.
struct Votes {
  std::uint64_t keep = 0;
  std::uint64_t let_go = 0;
};
template <bool kAlone>
__device__ inline std::uint64_t join(const std::uint32_t (&words)[kMostBlocks]) {
  if (kAlone) return words[0] & kRowBits;
  const std::uint32_t low = (words[0] & kRowBits) | words[1] << kRowsPerBlock;
  const std::uint32_t high = (words[2] & kRowBits) | words[3] << kRowsPerBlock;
  return std::uint64_t{high} << 32 | low;
}
template <bool kAlone>
__device__ inline Votes votes_for(const RouteShared& s, std::uint32_t e) {
  std::uint32_t words[kMostBlocks], others[kMostBlocks];
#pragma unroll
  for (std::uint32_t b = 0; b < (kAlone ? 1 : kMostBlocks); ++b) {
    words[b] = s.votes[b][e];
    others[b] = words[b] >> kRowsPerBlock;
  }
  return {join<kAlone>(words), join<kAlone>(others)};
}
template <bool kAlone>
__device__ inline std::uint64_t brings_of(const RouteShared& s, std::uint32_t e) {
  std::uint32_t words[kMostBlocks];
#pragma unroll
  for (std::uint32_t b = 0; b < (kAlone ? 1 : kMostBlocks); ++b) words[b] = s.brings[b][e];
  return join<kAlone>(words);
}

// Rows that take an active expert because it is among their exact top-k.
__device__ inline std::uint64_t keepers(const RouteArgs& args, const Votes& votes) {
  return args.policy == PolicyKind::kTopKReduced ? votes.keep : votes.keep | votes.let_go;
}

// Thread e's expert, by what all blocks say.
template <bool kAlone>
__device__ inline bool stays(const RouteArgs& args, const RouteShared& s, const Votes& votes,
                             std::uint32_t e) {
  if (votes.keep != 0) return true;
  const std::uint32_t voters = count_voters(s).vote;
  const auto let_go = static_cast<std::uint32_t>(__popcll(votes.let_go));
  if (args.policy == PolicyKind::kLynx) return let_go != 0 && let_go == voters;
  if (args.policy != PolicyKind::kEnergy) return false;
  if (voters <= 1) return let_go != 0;  // a lone voter keeps all it chose
  std::uint32_t energy = 0;
#pragma unroll
  for (std::uint32_t b = 0; b < (kAlone ? 1 : kMostBlocks); ++b) energy += s.energy[b][e];
  return stays_by_energy(energy, voters, args.shape.experts, args.derived);
}

// Every block, for itself, once it has heard all votes; thread e, and all lanes of its warp: whether e's
// expert is in A, and which rows take it if nothing else is brought.
template <bool kAlone>
__device__ inline std::uint64_t count_votes(const RouteArgs& args, RouteShared& s, std::uint32_t e) {
  const Votes votes = votes_for<kAlone>(s, e);
  const bool routed = (votes.keep | votes.let_go) != 0;
  const bool stay = stays<kAlone>(args, s, votes, e);
  const std::uint32_t active = __ballot_sync(kAllLanes, stay);
  const std::uint32_t all =
      __ballot_sync(kAllLanes, routed || (e < args.shape.top_k && count_voters(s).have_nan != 0));
  const std::uint32_t lost = __ballot_sync(kAllLanes, routed && !stay);
  if (e % kWarp == 0) {
    s.active[e / kWarp] = active;
    s.lost[e / kWarp] = lost;
    s.routed[e / kWarp] = static_cast<std::uint32_t>(__popc(all));
  }
  return stay ? keepers(args, votes) : 0;
}

// Of the words of N experts.
template <int V>
struct Active {
  std::uint32_t count = 0;
  bool lost = false;
};
template <int V>
__device__ inline Active<V> look_at_active(const RouteShared& s) {
  Active<V> found;
  std::uint32_t lost = 0;
#pragma unroll
  for (std::uint32_t w = 0; w < V; w += 4) {
    const uint4 in = *reinterpret_cast<const uint4*>(&s.active[w]);
    const uint4 out = *reinterpret_cast<const uint4*>(&s.lost[w]);
    found.count += static_cast<std::uint32_t>(__popc(in.x) + __popc(in.y) + __popc(in.z) + __popc(in.w));
    lost |= out.x | out.y | out.z | out.w;
  }
  found.lost = lost != 0;
  return found;
}

// Uniform over the cluster.
__device__ inline bool needs_fill(const RouteArgs& args, std::uint32_t active, std::uint32_t voters) {
  if (voters == 0) return false;
  return fills_first(args.policy) || (args.policy != PolicyKind::kTopKReduced && active < args.shape.top_k);
}

// Whether every row keeps its exact top-k whole: then the votes have said who takes what, and nobody has to
// hear anything else. Uniform over the cluster.
__device__ inline bool all_keep(const RouteArgs& args, bool lost, std::uint32_t have_nan) {
  return !lost && have_nan == 0 && args.policy != PolicyKind::kTopKReduced;
}

}  // namespace lynx::cuda
