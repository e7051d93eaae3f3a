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

// Whatever the votes say.
__device__ inline bool chooses_again(const RouteArgs& args) {
  return args.policy == PolicyKind::kTopKReduced || fills_first(args.policy) ||
         votes_by_margin(args.policy, args.shape);
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

// Every block, for itself, once it has heard all votes; all lanes of a warp. Returns which rows take thread
// e's expert if nothing else is brought. Leaves in `again` whether some row of the batch may have to choose
// again. If none does, everybody knows who takes what: only rows that have lost an expert, or have a NaN,
// take others, and only then can fewer than k be active.
template <bool kAlone>
__device__ inline std::uint64_t count_votes(const RouteArgs& args, RouteShared& s, std::uint32_t e) {
  const Votes votes = votes_for<kAlone>(s, e);
  const bool have_nan = count_voters(s).have_nan != 0;
  const bool routed = (votes.keep | votes.let_go) != 0;
  const bool stay = stays<kAlone>(args, s, votes, e);
  const std::uint32_t active = __ballot_sync(kAllLanes, stay);
  const std::uint32_t all = __ballot_sync(kAllLanes, routed || (e < args.shape.top_k && have_nan));
  const std::uint32_t again = __ballot_sync(kAllLanes, (routed && !stay) || have_nan || chooses_again(args));
  if (e % kWarp == 0) {
    s.active[e / kWarp] = active;
    s.routed[e / kWarp] = static_cast<std::uint32_t>(__popc(all));
    s.again[e / kWarp] = again;
  }
  return stay ? keepers(args, votes) : 0;
}

// Uniform over the cluster, once the votes are counted. V: words that may not be zero.
template <int V>
__device__ inline bool rows_choose_again(const RouteShared& s) {
  std::uint32_t any = 0;
#pragma unroll
  for (std::uint32_t w = 0; w < V; w += 4) {
    const uint4 in = *reinterpret_cast<const uint4*>(&s.again[w]);
    any |= in.x | in.y | in.z | in.w;
  }
  return any != 0;
}

// Of A. V: words that may not be zero.
template <int V>
__device__ inline std::uint32_t count_active(const RouteShared& s) {
  std::uint32_t count = 0;
#pragma unroll
  for (std::uint32_t w = 0; w < V; w += 4) {
    const uint4 in = *reinterpret_cast<const uint4*>(&s.active[w]);
    count += static_cast<std::uint32_t>(__popc(in.x) + __popc(in.y) + __popc(in.z) + __popc(in.w));
  }
  return count;
}

// Uniform over the cluster.
__device__ inline bool needs_fill(const RouteArgs& args, std::uint32_t active, std::uint32_t voters) {
  if (voters == 0) return false;
  return fills_first(args.policy) || (args.policy != PolicyKind::kTopKReduced && active < args.shape.top_k);
}

}  // namespace lynx::cuda
