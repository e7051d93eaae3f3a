// route_portable.cu: filling the active set up, when a policy leaves fewer than k experts or chooses by
// summed probability. See Selection::fill_to.
#pragma once

#include "kernels/cuda/route_portable.cuh"

namespace lynx::cuda::portable {

// Uniform over the block.
__device__ inline bool needs_fill(const RouteArgs& args, const RouteShared& s) {
  if (s.voters == 0) return false;
  if (fills_first(args.policy)) return true;
  std::uint32_t active = 0;
  for (std::uint32_t w = 0; w < kWords; ++w) active += __popc(s.active[w]);
  return args.policy != PolicyKind::kTopKReduced && active < args.shape.top_k;
}

__device__ inline void add_probabilities(const RouteArgs& args, RouteShared& s, const Row& row) {
  if (!row.live || !s.votes[row.index]) return;
  const RouterKind kind = args.shape.kind;
  const float max = row.logits[s.top[row.index][0]];
  std::uint64_t total = kMassOne;
  if (kind == RouterKind::kSoftmax) {
    total = 0;
    for (std::uint32_t e = row.lane; e < args.shape.experts; e += kWarp)
      total += exp_minus(gap_below(max, row.logits[e]));
    total = sum_lanes(total);
  }
  for (std::uint32_t e = row.lane; e < args.shape.experts; e += kWarp) {
    const std::uint64_t part = (std::uint64_t{mass_of(kind, row.logits[e], max)} << 31) / total;
    atomicAdd(reinterpret_cast<unsigned long long*>(&s.probability[e]), part);
  }
}

// lynx: the votes for expert e by bin, most significant first; all votes in one bin carry into the digit
// before.
__device__ inline void count_digits(const RouteArgs& args, RouteShared& s, std::uint32_t e) {
  const std::uint32_t count = digits_of(args);
  if (count == 0) return;
  std::uint8_t* digits = s.digits + e * count;
  for (std::uint32_t i = 0; i < count; ++i) digits[i] = 0;
  const std::uint32_t live = live_count(args.live_rows, args.plan.rows);
  for (std::uint32_t r = 0; r < live; ++r) {
    if (!s.votes[r]) continue;
    const float* row = args.logits + std::size_t{r} * args.shape.experts;
    for (std::uint32_t i = 0; i < args.shape.top_k; ++i)
      if (s.top[r][i] == e)
        ++digits[1 + affinity_bin(gap_below(row[s.top[r][0]], row[e]), args.derived.alpha,
                                  args.derived.bins - 1)];
  }
  for (std::uint32_t i = 1; i < count; ++i) {
    if (digits[i] != s.voters) continue;
    digits[i] = 0;
    ++digits[i - 1];
    return;
  }
}

// The order in which experts are taken; kNoExpert comes after all.
__device__ inline bool fills_before(const RouteArgs& args, const RouteShared& s, std::uint32_t a,
                                    std::uint32_t b) {
  if (a == ExpertPlan::kNoExpert || b == ExpertPlan::kNoExpert) return a < b;
  const std::uint32_t count = digits_of(args);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint8_t of_a = s.digits[a * count + i];
    const std::uint8_t of_b = s.digits[b * count + i];
    if (of_a != of_b) return of_a > of_b;
  }
  if (s.probability[a] != s.probability[b]) return s.probability[a] > s.probability[b];
  return a < b;
}

// One warp: activates the best of the experts left out until `count` are active.
__device__ inline void fill_to(const RouteArgs& args, RouteShared& s, std::uint32_t count) {
  const std::uint32_t lane = threadIdx.x;
  std::uint32_t have =
      __reduce_add_sync(kAllLanes, lane < kWords ? static_cast<std::uint32_t>(__popc(s.active[lane])) : 0U);
  for (; have < count; ++have) {
    std::uint32_t best = ExpertPlan::kNoExpert;
    for (std::uint32_t e = lane; e < args.shape.experts; e += kWarp)
      if (!has_bit(s.active, e) && fills_before(args, s, e, best)) best = e;
    for (std::uint32_t step = kWarp / 2; step > 0; step /= 2) {
      const std::uint32_t other = __shfl_xor_sync(kAllLanes, best, step);
      if (fills_before(args, s, other, best)) best = other;
    }
    if (lane == 0) set_bit(s.active, best);
    __syncwarp();
  }
}

// One warp. xshare chooses by the sums before the rows' own experts are added.
__device__ inline void choose_filled(const RouteArgs& args, RouteShared& s) {
  if (fills_first(args.policy)) {
    const std::uint32_t lane = threadIdx.x;
    const std::uint32_t kept = lane < kWords ? s.active[lane] : 0;
    __syncwarp();
    if (lane < kWords) s.active[lane] = 0;
    __syncwarp();
    fill_to(args, s, args.derived.budget);
    if (lane < kWords) s.active[lane] |= kept;
    __syncwarp();
  }
  fill_to(args, s, args.shape.top_k);
}

__device__ inline void fill(const RouteArgs& args, RouteShared& s) {
  for_each_row(args, [&](const Row& row) { add_probabilities(args, s, row); });
  if (threadIdx.x < args.shape.experts) count_digits(args, s, threadIdx.x);
  __syncthreads();
  if (threadIdx.x < kWarp) choose_filled(args, s);
  __syncthreads();
}

}  // namespace lynx::cuda::portable
