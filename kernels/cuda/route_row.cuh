// One row of router logits, held by one warp: the exact top-k, the refill inside the active set, the weights.
// The same steps as kernels/lynx/row_plan.cc.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_plan.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/lynx/fixed_point.h"
#include "kernels/lynx/policy.h"

namespace lynx::cuda {

// An unsigned integer in the order of the floats; -0 equals 0. 0 stands for "no expert": no float maps there.
__device__ inline std::uint32_t rank_key(float z) {
  const std::uint32_t bits = __float_as_uint(z + 0.0F);
  const auto sign = static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31);  // of all bits
  return bits ^ (sign | 0x80000000U);
}
__device__ inline float key_value(std::uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key ^ 0x80000000U : ~key);
}

__device__ inline std::uint32_t lanes_below(std::uint32_t lane) { return (1U << lane) - 1; }

// Of up to 32 masses or row sums: exact, in two halves that fit 32 bits.
__device__ inline std::uint64_t sum_lanes(std::uint64_t value) {
  const auto low = static_cast<std::uint32_t>(value & 0xFFFFU);
  const auto high = static_cast<std::uint32_t>(value >> 16);  // value < 2^37
  return (std::uint64_t{__reduce_add_sync(kAllLanes, high)} << 16) + __reduce_add_sync(kAllLanes, low);
}

// Of the lanes before this one.
__device__ inline std::uint64_t sum_before(std::uint64_t value, std::uint32_t lane) {
  return warp_prefix_sum(value, lane) - value;
}

// Routing runs an instruction once or twice a layer and fetches it from afar: so what is long and has several
// callers is there once, by itself.
__device__ __noinline__ inline std::uint32_t mass_of(RouterKind kind, float z, float max) {
  const bool softmax = kind == RouterKind::kSoftmax;
  const std::uint32_t tail = exp_minus(softmax ? gap_below(max, z) : fabsf(z));
  return softmax ? tail : sigmoid_of_tail(z, tail);
}
// The same for a row's own experts, of which most models want nothing but the exponential.
__device__ inline std::uint32_t mass_in_row(RouterKind kind, float z, float max) {
  if (kind == RouterKind::kSoftmax) [[likely]]
    return exp_minus(gap_below(max, z));
  return mass_of(kind, z, max);
}
__device__ __noinline__ inline std::uint64_t quotient(std::uint64_t a, std::uint64_t b) { return a / b; }

// floor(part 2^kBits / whole), for part <= whole < 2^38 and whole > 0. By floats that are right to some
// 2^-21, so that the quotient is off by a few; what is left over is divided once more, after which it is off
// by one at most.
template <unsigned kBits>
__device__ inline std::uint32_t ratio(std::uint64_t part, std::uint64_t whole) {
  static_assert(kBits <= 24);
  const float inverse = __fdividef(1.0F, __ull2float_rn(whole));
  std::uint32_t quotient = __float2uint_rz(__ull2float_rn(part) * inverse * static_cast<float>(1U << kBits));
  const auto signed_whole = static_cast<std::int64_t>(whole);
  std::int64_t left = static_cast<std::int64_t>(part << kBits) - signed_whole * quotient;
  const int more = __float2int_rd(__ll2float_rn(left) * inverse);
  quotient += static_cast<std::uint32_t>(more);
  left -= signed_whole * more;
  if (left < 0) --quotient;
  if (left >= signed_whole) ++quotient;
  return quotient;
}

// Lane l holds experts l V .. l V + V - 1; V is a power of two, at most 32.
template <int V>
struct RowKeys {
  std::uint32_t key[V];

  static __device__ std::uint32_t expert_of(int v, std::uint32_t lane) { return lane * V + v; }
  // Bit v: of key[v]'s expert in a set.
  static __device__ std::uint32_t bits_of(const std::uint32_t* words, std::uint32_t lane) {
    return words[lane * V / 32] >> (lane * V % 32);
  }

  // key[v] in a loop that is not unrolled.
  __device__ std::uint32_t at(int v) const { return pick(key, v); }
  static __device__ std::uint32_t pick(const std::uint32_t (&keys)[V], int v) {
    std::uint32_t found = 0;
#pragma unroll
    for (int i = 0; i < V; ++i) found = i == v ? keys[i] : found;
    return found;
  }

  // False if the row has a NaN; the keys are then of no use.
  __device__ bool load(const float* row, std::uint32_t experts, std::uint32_t lane) {
    bool nan = false;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const std::uint32_t e = expert_of(v, lane);
      const float z = e < experts ? row[e] : 0.0F;
      nan |= z != z;
      key[v] = e < experts ? rank_key(z) : 0;
    }
    return __any_sync(kAllLanes, nan) == 0;
  }
  // The same where all lanes have all their experts, and `row` is aligned to V floats.
  __device__ bool load_full(const float* row, std::uint32_t lane) {
    struct alignas(V * sizeof(float)) Part {
      float z[V];
    };
    const Part part = reinterpret_cast<const Part*>(row)[lane];
    bool nan = false;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      nan |= part.z[v] != part.z[v];
      key[v] = rank_key(part.z[v]);
    }
    return __any_sync(kAllLanes, nan) == 0;
  }

  __device__ std::uint32_t best() const {  // of the lane's
    std::uint32_t largest = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) largest = max(largest, key[v]);
    return largest;
  }

  // Removes the first expert in rank order: true for the lane that held it, which gets it. All get its key.
  __device__ bool pop(std::uint32_t lane, std::uint32_t& best_key, std::uint32_t& expert) {
    const std::uint32_t best = this->best();
    best_key = __reduce_max_sync(kAllLanes, best);
    int first = 0;  // of the lane's best
#pragma unroll
    for (int v = V - 1; v >= 0; --v)
      if (key[v] == best) first = v;
    expert = expert_of(first, lane);
    const std::uint32_t lanes = __ballot_sync(kAllLanes, best == best_key);
    // Of equal keys the first expert: so the first lane.
    const bool mine = best == best_key && (lanes & lanes_below(lane)) == 0;
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (mine && v == first) key[v] = 0;
    return mine;
  }

  __device__ void keep_only(const std::uint32_t* active_words, std::uint32_t lane) {
    const std::uint32_t bits = bits_of(active_words, lane);
#pragma unroll
    for (int v = 0; v < V; ++v)
      if ((bits >> v & 1) == 0) key[v] = 0;
  }

  __device__ std::uint64_t sum_of_masses(RouterKind kind, float max) const {
    std::uint64_t sum = 0;
#pragma unroll 1
    for (int v = 0; v < V; ++v)
      if (at(v) != 0) sum += mass_of(kind, key_value(at(v)), max);
    return sum_lanes(sum);
  }

  // Of the experts that are left.
  __device__ std::uint32_t largest_mass(RouterKind kind, float row_max) const {
    std::uint32_t largest = 0;
#pragma unroll 1
    for (int v = 0; v < V; ++v)
      if (at(v) != 0) largest = max(largest, mass_of(kind, key_value(at(v)), row_max));
    return __reduce_max_sync(kAllLanes, largest);
  }
};

// A ranked list of experts, one a lane; lanes beyond the list hold expert 0xFFFFFFFF and key 0.
struct alignas(8) Ranked {
  std::uint32_t expert = 0xFFFFFFFF;
  std::uint32_t key = 0;
};

// Takes experts until `list` has `until` of them, the first of which goes to lane `from`.
template <int V>
__device__ void take_ranked(RowKeys<V>& keys, Ranked& list, std::uint32_t from, std::uint32_t until,
                            std::uint32_t lane) {
#pragma unroll 1
  for (std::uint32_t i = from; i < until; ++i) {
    std::uint32_t key, expert;
    const bool mine = keys.pop(lane, key, expert);
    expert = __shfl_sync(kAllLanes, expert, __ffs(__ballot_sync(kAllLanes, mine)) - 1);
    if (lane == i) list = {expert, key};
  }
}

// What the weights of a row need of its exact top-k.
struct RowMass {
  float max = 0;
  std::uint32_t own = 0;  // of lane's expert of the exact top-k
  std::uint64_t top = 0;  // sum of the exact top-k
  std::uint64_t all = 0;  // what a mass is divided by to give a probability; only without norm_topk_prob
};

// a / b as __fdiv_rn, whose way this is but for what it does about numbers near the ends of the floats'
// range.
__device__ inline float divide(float a, float b) {
#ifdef __CUDA_ARCH__
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(inverse, __fmaf_rn(inverse, -b, 1.0F), inverse);
  const float about = __fmul_rn(inverse, a);
  return __fmaf_rn(inverse, __fmaf_rn(about, -b, a), about);
#else
  return a / b;
#endif
}

// The weight of a mass: its part of `whole`, which `slots` share alike if it is nothing.
__device__ inline float weigh_part(const RouterShape& shape, const RowMass& row, std::uint32_t mass,
                                   std::uint64_t whole, std::uint32_t slots) {
  // 1 / slots of nothing.
  const float part = divide(whole == 0 ? 1.0F : __uint2float_rn(mass),
                            whole == 0 ? static_cast<float>(slots) : __ull2float_rn(whole));
  if (shape.norm_topk_prob) return part;
  return __fmul_rn(part, divide(__ull2float_rn(row.top), __ull2float_rn(row.all)));
}

// The weight of lane's chosen expert; retained: share of the top-k's mass in the first `kept`, 2^-24.
__device__ inline float weigh_lane(const RouterShape& shape, WeightRule rule, const RowMass& row,
                                   const Ranked& chosen, std::uint32_t slots, std::uint32_t kept,
                                   std::uint32_t lane, std::uint32_t& retained) {
  const std::uint32_t weighing = rule == WeightRule::kKept ? kept : slots;
  const std::uint32_t mass = lane < weighing ? mass_in_row(shape.kind, key_value(chosen.key), row.max) : 0;
  const std::uint64_t whole = rule == WeightRule::kRenormalised ? sum_lanes(mass) : row.top;
  retained = kAllRetained;
  if (kept < shape.top_k && row.top != 0) {
    const std::uint64_t kept_sum = sum_lanes(lane < kept ? mass : 0);
    retained = ratio<24>(kept_sum, row.top);
  }
  return weigh_part(shape, row, mass, whole, slots);
}

}  // namespace lynx::cuda
