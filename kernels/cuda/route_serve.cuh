// energy with one expert to a row: an expert stays by its energy alone, so a row's first may go. What every
// row is promised then: an expert with at least half of its first's probability, or else that first. See
// kernels/lynx/energy.cc.
#pragma once

#include "kernels/cuda/route_votes.cuh"

namespace lynx::cuda {

// Whether A has such an expert for the row. keys: all but the row's first.
template <int V, typename Keys>
__device__ inline bool is_served(const RouteArgs& args, const RouteShared& s, const Row& row,
                                 const Keys& keys, const Ranked& top, const RowMass& mass) {
  const std::uint32_t bits = keys.bits_of(s.active, row.lane);
  bool served = row.lane == 0 && has_bit(s.active, top.expert);
#pragma unroll 1
  for (int v = 0; v < V; ++v)
    if (keys.at(v) != 0 && (bits >> v & 1) != 0)
      served |= std::uint64_t{2} * mass_of(args.shape.kind, key_value(keys.at(v)), mass.max) >= mass.top;
  return __any_sync(kAllLanes, served) != 0;
}

// All rows are judged by what stays by its energy, before any of them brings its first; exact rows bring it
// whatever is there.
template <int V, bool kAlone, typename Keys>
__device__ __noinline__ void serve_rows(const RouteArgs& args, RouteShared& s, Row row, Keys keys, Ranked top,
                                        RowMass mass) {
  const Blocks<kAlone> blocks;
  if (row.votes && (row.exact || !is_served<V>(args, s, row, keys, top, mass)) && row.lane == 0)
    blocks.each([&](std::uint32_t b) {
      atomicOr(&blocks.of(s, b).brought[top.expert / 32], 1U << (top.expert % 32));
    });
  blocks.sync();
  if (threadIdx.x < kActiveWords) s.active[threadIdx.x] |= s.brought[threadIdx.x];
  __syncthreads();
}

}  // namespace lynx::cuda
