// Filling the active set up: the rare path, taken when a policy leaves fewer than k experts (or chooses by
// summed probability). All rows add up in block 0, which then ranks the experts left out. See
// Selection::fill_to.
#pragma once

#include "kernels/cuda/route_policy.cuh"
#include "kernels/cuda/route_shared.cuh"

namespace lynx::cuda {

// The row's probabilities and, under lynx, its votes, added to block 0's sums. One warp.
__device__ inline void add_row(const RouteArgs& args, RouteShared& sums, const float* row, float max,
                               const Ranked& top, std::uint32_t lane) {
  const std::uint32_t n = args.shape.experts;
  const RouterKind kind = args.shape.kind;
  std::uint64_t total = kMassOne;
  if (kind == RouterKind::kSoftmax) {
    total = 0;
    for (std::uint32_t e = lane; e < n; e += kWarp) total += exp_minus(gap_below(max, row[e]));
    total = sum_lanes(total);
  }
  for (std::uint32_t e = lane; e < n; e += kWarp) {
    const std::uint64_t part = (std::uint64_t{mass_of(kind, row[e], max)} << 31) / total;
    atomicAdd(reinterpret_cast<unsigned long long*>(&sums.probability[e]), part);
  }
  if (args.policy == PolicyKind::kLynx && lane < args.shape.top_k) {
    const std::uint32_t bins = args.derived.bins;
    const std::uint32_t bin = affinity_bin(gap_below(max, key_value(top.key)), args.derived.alpha, bins - 1);
    atomicAdd(&sums.digits[top.expert * (bins + 1) + 1 + bin], 1U);
  }
}

// All votes in one bin carry into the digit before. See lynx.cc.
__device__ inline void carry(std::uint32_t* digits, std::uint32_t count, std::uint32_t base) {
  for (std::uint32_t i = 1; i < count; ++i) {
    if (digits[i] != base) continue;
    digits[i] = 0;
    ++digits[i - 1];
    return;
  }
}

__device__ inline bool fills_before(const RouteShared& s, std::uint32_t digits, std::uint32_t a,
                                    std::uint32_t b) {
  for (std::uint32_t i = 0; i < digits; ++i) {
    const std::uint32_t of_a = s.digits[a * digits + i];
    const std::uint32_t of_b = s.digits[b * digits + i];
    if (of_a != of_b) return of_a > of_b;
  }
  if (s.probability[a] != s.probability[b]) return s.probability[a] > s.probability[b];
  return a < b;
}

// Activates the best of the experts left out until `count` are active. All threads of block 0.
__device__ inline void fill_to(RouteShared& s, std::uint32_t n, std::uint32_t digits, std::uint32_t count) {
  const std::uint32_t have = count_bits(s.active);
  std::uint32_t mine = 0;  // bit i: expert threadIdx + i * threads is among the best
  for (std::uint32_t e = threadIdx.x, i = 0; e < n && have < count; e += kRouteThreads, ++i) {
    if (has_bit(s.active, e)) continue;
    std::uint32_t before = 0;
    for (std::uint32_t other = 0; other < n; ++other)
      before += other != e && !has_bit(s.active, other) && fills_before(s, digits, other, e) ? 1 : 0;
    mine |= (before < count - have ? 1U : 0U) << i;
  }
  __syncthreads();
  for (std::uint32_t e = threadIdx.x, i = 0; e < n; e += kRouteThreads, ++i)
    if ((mine >> i & 1) != 0) atomicOr(&s.active[e / 32], 1U << (e % 32));
  __syncthreads();
}

// Block 0, once every row has been added: the active set, from `keep` (what the votes say) and the sums.
__device__ inline void choose_filled(const RouteArgs& args, RouteShared& s, std::uint32_t voters) {
  const std::uint32_t n = args.shape.experts;
  std::uint32_t digits = 0;
  if (args.policy == PolicyKind::kLynx) {
    digits = args.derived.bins + 1;
    for (std::uint32_t e = threadIdx.x; e < n; e += kRouteThreads)
      carry(&s.digits[e * digits], digits, voters);
    __syncthreads();
  }
  if (fills_first(args.policy)) {
    std::uint32_t keep = 0;
    if (threadIdx.x < kActiveWords) {
      keep = s.active[threadIdx.x];
      s.active[threadIdx.x] = 0;
    }
    __syncthreads();
    fill_to(s, n, digits, args.derived.budget);
    if (threadIdx.x < kActiveWords) s.active[threadIdx.x] |= keep;
    __syncthreads();
  }
  fill_to(s, n, digits, args.shape.top_k);
}

}  // namespace lynx::cuda
