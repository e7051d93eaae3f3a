// A batch to route, and what every plan must satisfy. Shared by the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/lynx/reference.h"

namespace lynx {

inline const std::vector<PolicyKind> kEveryPolicy{
    PolicyKind::kOff,    PolicyKind::kLynx,        PolicyKind::kShare,  PolicyKind::kOea,
    PolicyKind::kXshare, PolicyKind::kTopKReduced, PolicyKind::kEnergy, PolicyKind::kSweep};

inline const std::vector<WeightRule> kEveryWeightRule{WeightRule::kOwn, WeightRule::kKept,
                                                      WeightRule::kRenormalised};

inline WeightRule some_weight_rule(std::uint32_t seed) {
  return kEveryWeightRule[seed % kEveryWeightRule.size()];
}

struct RoutingCase {
  RouterShape shape{.experts = 64, .top_k = 8};
  RoutePolicy policy{.kind = PolicyKind::kLynx};
  std::vector<float> logits;        // [B, N]
  std::vector<std::uint8_t> live;   // [B]
  std::vector<std::uint8_t> exact;  // [B] or empty

  std::uint32_t rows() const { return static_cast<std::uint32_t>(live.size()); }
  std::span<float> row(std::uint32_t r) {
    return std::span(logits).subspan(r * shape.experts, shape.experts);
  }
  void add_row(std::span<const float> values, bool is_live = true) {
    logits.insert(logits.end(), values.begin(), values.end());
    live.push_back(is_live ? 1 : 0);
  }
  ExpertPlan plan() const {
    ExpertPlan out;
    route_reference(out, logits, shape, policy, {live, exact});
    return out;
  }
};

inline std::vector<float> random_row(std::mt19937& rng, std::uint32_t experts, float spread = 1.5F) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(experts);
  for (float& z : row) z = normal(rng);
  return row;
}

inline RoutingCase random_case(std::uint32_t seed, std::uint32_t rows,
                               RouterShape shape = {.experts = 64, .top_k = 8},
                               PolicyKind kind = PolicyKind::kLynx) {
  std::mt19937 rng(seed);
  RoutingCase c{.shape = shape, .policy = {.kind = kind}, .logits = {}, .live = {}, .exact = {}};
  for (std::uint32_t r = 0; r < rows; ++r) c.add_row(random_row(rng, shape.experts));
  return c;
}

inline std::span<const std::uint32_t> experts_of(const ExpertPlan& plan, std::uint32_t r) {
  return std::span(plan.experts).subspan(r * plan.top_k, plan.top_k);
}
inline std::span<const float> weights_of(const ExpertPlan& plan, std::uint32_t r) {
  return std::span(plan.weights).subspan(r * plan.top_k, plan.top_k);
}

// The exact top-k the slow way: a full stable sort.
inline std::vector<std::uint32_t> exact_top(std::span<const float> row, std::uint32_t k) {
  std::vector<std::uint32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return row[a] > row[b]; });
  order.resize(k);
  return order;
}

// Probabilities in double, with the C library's exp.
inline std::vector<double> probabilities(std::span<const float> row, RouterKind kind) {
  std::vector<double> p(row.begin(), row.end());
  if (kind == RouterKind::kSigmoid) {
    for (double& v : p) v = 1 / (1 + std::exp(-v));
    return p;
  }
  const double max = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& v : p) sum += v = std::exp(v - max);
  for (double& v : p) v /= sum;
  return p;
}

inline bool same_plan(const ExpertPlan& a, const ExpertPlan& b) {
  return a.rows == b.rows && a.top_k == b.top_k && a.experts == b.experts && a.weights == b.weights &&
         a.active == b.active && a.offsets == b.offsets && a.row_of == b.row_of && a.slot_of == b.slot_of;
}

inline void expect_same_stats(const PlanStats& a, const PlanStats& b) {
  EXPECT_EQ(a.routed_experts, b.routed_experts);
  EXPECT_EQ(a.activated_experts, b.activated_experts);
  EXPECT_EQ(a.assignments, b.assignments);
  EXPECT_EQ(a.remapped, b.remapped);
  EXPECT_EQ(a.retained_mass_sum, b.retained_mass_sum) << "bit for bit";
  EXPECT_EQ(a.retained_mass_min, b.retained_mass_min);
}

// The transposed form holds the same assignments as the rows, each exactly once.
inline void expect_transpose_agrees(const ExpertPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), plan.active.size() + 1);
  EXPECT_TRUE(std::is_sorted(plan.active.begin(), plan.active.end()));
  std::size_t assignments = 0;
  for (const auto e : plan.experts) assignments += e != ExpertPlan::kNoExpert ? 1 : 0;
  ASSERT_EQ(plan.offsets.back(), assignments);
  ASSERT_EQ(plan.row_of.size(), assignments);
  ASSERT_EQ(plan.slot_of.size(), assignments);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (std::size_t i = 0; i < plan.active.size(); ++i) {
    EXPECT_LT(plan.offsets[i], plan.offsets[i + 1]) << "an active expert has rows";
    for (auto j = plan.offsets[i]; j < plan.offsets[i + 1]; ++j) {
      EXPECT_EQ(experts_of(plan, plan.row_of[j])[plan.slot_of[j]], plan.active[i]);
      EXPECT_TRUE(seen.insert({plan.row_of[j], plan.slot_of[j]}).second);
    }
  }
}

// Distinct experts by falling logit, the row's first among them, weights by the rule.
inline void expect_row_is_sound(RoutingCase& c, const ExpertPlan& plan, std::uint32_t r,
                                std::uint32_t slots) {
  const auto experts = experts_of(plan, r).first(slots);
  const auto weights = weights_of(plan, r).first(slots);
  const auto top = exact_top(c.row(r), c.shape.top_k);
  const auto p = probabilities(c.row(r), c.shape.kind);
  EXPECT_EQ(std::set(experts.begin(), experts.end()).size(), slots) << "distinct experts in row " << r;
  EXPECT_EQ(experts[0], top[0]) << "the top-1 stays";
  double chosen = 0, exact = 0, sum = 0;
  for (const auto e : experts) chosen += p[e];
  for (const auto e : top) exact += p[e];
  const double contract = c.shape.norm_topk_prob ? 1.0 : exact;
  const double whole = c.policy.weights == WeightRule::kRenormalised ? chosen : exact;
  for (std::uint32_t i = 0; i < slots; ++i) {
    const bool is_own = std::find(top.begin(), top.end(), experts[i]) != top.end();
    const bool weighs = is_own || c.policy.weights != WeightRule::kKept;
    EXPECT_NEAR(weights[i], weighs ? p[experts[i]] / whole * contract : 0, 3e-7)
        << "row " << r << " slot " << i;
    EXPECT_GE(c.row(r)[experts[i > 0 ? i - 1 : 0]], c.row(r)[experts[i]]) << "by falling logit";
    sum += weights[i];
  }
  if (c.policy.weights == WeightRule::kRenormalised) {
    EXPECT_NEAR(sum, contract, 1e-6);
  } else {
    EXPECT_LE(sum, contract + 1e-6);
  }
}

}  // namespace lynx
