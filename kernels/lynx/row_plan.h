// One row of a plan: its exact top-k, its masses, its refill inside the active set and its weights.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/lynx/fixed_point.h"
#include "kernels/lynx/policy.h"

namespace lynx {

// Original probability of an expert up to the row's constant row_mass. max: the row's largest logit.
inline std::uint32_t expert_mass(RouterKind kind, float z, float max) {
  return kind == RouterKind::kSoftmax ? exp_minus(gap_below(max, z)) : sigmoid_mass(z);
}

// What a mass is divided by to give a probability: the sum over all experts (softmax) or 1 (sigmoid). Never
// 0.
std::uint64_t row_mass(const RouterShape& shape, std::span<const float> row, float max);

// The first out.size() experts of a row, in rank order. No NaN in the row.
void top_experts(std::span<const float> row, std::span<std::uint32_t> out);

// The first out.size() experts of the row inside the active set, in rank order, and how many of them lead the
// exact top-k: those stand first, since every expert outside the top-k ranks after all of it.
std::uint32_t refill(std::span<const float> row, std::span<const std::uint32_t> top,
                     std::span<const std::uint32_t> active, std::span<const std::uint8_t> is_active,
                     std::span<std::uint32_t> out);

// The exact top-k without the expert of one rank (from 0), and the next best expert in the last place.
// Returns how many are of the exact top-k. k < N.
std::uint32_t deny(std::span<const float> row, std::span<const std::uint32_t> top, std::uint32_t rank,
                   std::span<std::uint32_t> out);

// The weights of a row's chosen experts, of which the first `kept` are of its exact top-k. Returns the share
// of the exact top-k's probability that those hold, in units of 2^-24.
std::uint32_t weigh(const RouterShape& shape, WeightRule rule, std::span<const float> row,
                    std::span<const std::uint32_t> top, std::span<const std::uint32_t> chosen,
                    std::uint32_t kept, std::span<float> weights);

}  // namespace lynx
