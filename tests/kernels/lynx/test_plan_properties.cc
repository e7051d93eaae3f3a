// What holds for every policy, on random logits of several shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/lynx/routing_case.h"

namespace lynx {
namespace {

const std::vector<RouterShape> kShapes{
    {.experts = 64, .top_k = 8},
    {.experts = 128, .top_k = 8, .norm_topk_prob = false},
    {.experts = 8, .top_k = 2},
    {.experts = 60, .top_k = 4, .norm_topk_prob = false},
    {.experts = 12, .top_k = 8},
    {.experts = 6, .top_k = 6},
    {.experts = 16, .top_k = 1},
    {.experts = 256, .top_k = 8, .kind = RouterKind::kSigmoid},
    {.experts = 64, .top_k = 6, .norm_topk_prob = false, .kind = RouterKind::kSigmoid},
};

class EveryPlan : public ::testing::TestWithParam<PolicyKind> {
 protected:
  std::uint32_t slots_of(const RoutingCase& c) const {
    return GetParam() == PolicyKind::kTopKReduced ? std::min(c.policy.keep, c.shape.top_k) : c.shape.top_k;
  }
};

// Field report 13.
TEST_P(EveryPlan, GivesEveryRowItsExpertsAndWeights) {
  std::uint32_t seed = 0;
  for (const RouterShape& shape : kShapes)
    for (const std::uint32_t rows : {1, 2, 5, 16, 64}) {
      auto c = random_case(++seed, rows, shape, GetParam());
      c.policy.weights = some_weight_rule(seed);
      const auto plan = c.plan();
      for (std::uint32_t r = 0; r < rows; ++r) expect_row_is_sound(c, plan, r, slots_of(c));
      expect_transpose_agrees(plan);
      EXPECT_EQ(plan.stats.activated_experts, plan.active.size());
      EXPECT_EQ(plan.stats.assignments, rows * shape.top_k);
      EXPECT_LE(plan.stats.activated_experts, plan.stats.routed_experts + shape.top_k);
    }
}

TEST_P(EveryPlan, StatisticsMatchACount) {
  for (const RouterShape& shape : kShapes) {
    auto c = random_case(3, 9, shape, GetParam());
    const auto plan = c.plan();
    std::set<std::uint32_t> routed;
    std::uint32_t remapped = 0;
    double mass = 0, worst = 1;
    for (std::uint32_t r = 0; r < c.rows(); ++r) {
      const auto top = exact_top(c.row(r), shape.top_k);
      const auto p = probabilities(c.row(r), shape.kind);
      routed.insert(top.begin(), top.end());
      double kept = 0, all = 0;
      for (const auto e : top) all += p[e];
      for (const auto e : experts_of(plan, r).first(slots_of(c))) {
        const bool in_top = std::count(top.begin(), top.end(), e) == 1;
        remapped += in_top ? 0 : 1;
        kept += in_top ? p[e] : 0;
      }
      mass += kept / all;
      worst = std::min(worst, kept / all);
    }
    EXPECT_EQ(plan.stats.routed_experts, routed.size());
    EXPECT_EQ(plan.stats.remapped, remapped);
    EXPECT_NEAR(plan.stats.retained_mass_sum, mass, 1e-6 * c.rows());
    EXPECT_NEAR(plan.stats.retained_mass_min, worst, 1e-6);
    EXPECT_EQ(*std::min_element(plan.row_mass_q24.begin(), plan.row_mass_q24.end()) / 16777216.0,
              plan.stats.retained_mass_min);
  }
}

TEST_P(EveryPlan, PermutingRowsPermutesThePlanAndNothingElse) {
  for (const RouterShape& shape : kShapes) {
    auto c = random_case(7, 13, shape, GetParam());
    c.exact.assign(c.rows(), 0);
    c.exact[4] = 1;
    std::vector<std::uint32_t> order(c.rows());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    RoutingCase permuted{.shape = shape, .policy = c.policy, .logits = {}, .live = {}, .exact = {}};
    for (const auto r : order) {
      permuted.add_row(c.row(r));
      permuted.exact.push_back(c.exact[r]);
    }
    const auto plan = c.plan(), other = permuted.plan();
    EXPECT_EQ(plan.active, other.active);
    expect_same_stats(plan.stats, other.stats);
    for (std::uint32_t r = 0; r < c.rows(); ++r) {
      EXPECT_TRUE(std::ranges::equal(experts_of(plan, order[r]), experts_of(other, r)));
      EXPECT_TRUE(std::ranges::equal(weights_of(plan, order[r]), weights_of(other, r)));
    }
  }
}

// Live batch 5 in a bucket of 8 equals batch 5, in the plan of its rows and in every statistic.
// Field report 12, in the reference.
TEST_P(EveryPlan, PaddingRowsNeitherVoteNorRoute) {
  for (const RouterShape& shape : kShapes) {
    auto c = random_case(11, 5, shape, GetParam());
    auto padded = c;
    std::mt19937 rng(1);
    padded.add_row(random_row(rng, shape.experts, 9), false);
    padded.add_row(std::vector<float>(shape.experts, std::numeric_limits<float>::quiet_NaN()), false);
    padded.add_row(random_row(rng, shape.experts, 9), false);
    const auto plan = c.plan(), other = padded.plan();
    expect_same_stats(plan.stats, other.stats);
    EXPECT_EQ(plan.active, other.active);
    EXPECT_EQ(plan.row_of, other.row_of);
    EXPECT_TRUE(std::equal(plan.experts.begin(), plan.experts.end(), other.experts.begin()));
    EXPECT_TRUE(std::equal(plan.weights.begin(), plan.weights.end(), other.weights.begin()));
    for (std::size_t i = plan.experts.size(); i < other.experts.size(); ++i) {
      EXPECT_EQ(other.experts[i], ExpertPlan::kNoExpert);
      EXPECT_EQ(other.weights[i], 0.0F);
    }
  }
}

// Field report 14.
TEST_P(EveryPlan, TheSameBatchGivesTheSameBitsInUsedMemory) {
  auto c = random_case(13, 16, kShapes[0], GetParam());
  const auto first = c.plan();
  ExpertPlan reused;
  auto other = random_case(14, 64, kShapes[1], GetParam());
  route_reference(reused, other.logits, other.shape, other.policy, {other.live, {}});
  route_reference(reused, c.logits, c.shape, c.policy, {c.live, {}});
  EXPECT_TRUE(same_plan(first, reused));
  expect_same_stats(first.stats, reused.stats);
}

// Field report 14.
TEST_P(EveryPlan, ExactRowsKeepTheirTopK) {
  for (const RouterShape& shape : kShapes) {
    auto c = random_case(17, 12, shape, GetParam());
    c.exact.assign(c.rows(), 0);
    c.exact[3] = c.exact[9] = 1;
    const auto plan = c.plan();
    for (const std::uint32_t r : {3U, 9U}) {
      EXPECT_TRUE(std::ranges::equal(experts_of(plan, r), exact_top(c.row(r), shape.top_k)));
      expect_row_is_sound(c, plan, r, shape.top_k);
    }
  }
}

// Field report 13.
TEST_P(EveryPlan, ANanRowTouchesNoOtherRow) {
  auto clean = random_case(19, 6, kShapes[0], GetParam());
  auto broken = clean;
  auto nan_row = std::vector<float>(clean.row(0).begin(), clean.row(0).end());
  nan_row[40] = std::numeric_limits<float>::quiet_NaN();
  broken.add_row(nan_row);
  const auto plan = clean.plan(), other = broken.plan();
  EXPECT_TRUE(std::equal(plan.experts.begin(), plan.experts.end(), other.experts.begin()));
  EXPECT_TRUE(std::equal(plan.weights.begin(), plan.weights.end(), other.weights.begin()));
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(experts_of(other, 6)[i], i);
    EXPECT_EQ(weights_of(other, 6)[i], 0.125F);
  }
  EXPECT_EQ(other.stats.remapped, plan.stats.remapped);
  EXPECT_EQ(other.stats.retained_mass_sum, plan.stats.retained_mass_sum + 1);
  expect_transpose_agrees(other);
}

TEST_P(EveryPlan, OnlyNanRowsOrNoRowsAtAllIsStillAPlan) {
  RoutingCase c{.shape = kShapes[0], .policy = {.kind = GetParam()}, .logits = {}, .live = {}, .exact = {}};
  EXPECT_EQ(c.plan().stats.activated_experts, 0u);
  c.add_row(std::vector<float>(64, std::numeric_limits<float>::quiet_NaN()));
  c.add_row(std::vector<float>(64, 0), false);
  const auto plan = c.plan();
  EXPECT_EQ(plan.stats.activated_experts, 8u);
  EXPECT_EQ(plan.stats.routed_experts, 8u);
  EXPECT_EQ(plan.stats.assignments, 8u);
  EXPECT_EQ(plan.stats.retained_mass_min, 1.0);
}

TEST_P(EveryPlan, InfinitiesAndTiesAreOrdinary) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid})
    for (const bool norm : {true, false}) {
      auto c =
          random_case(23, 3, {.experts = 16, .top_k = 4, .norm_topk_prob = norm, .kind = kind}, GetParam());
      c.policy.weights = WeightRule::kRenormalised;
      std::ranges::fill(c.row(0), -kInf);
      c.row(1)[5] = c.row(1)[3] = kInf;
      c.add_row(std::vector<float>(16, 2.5F));
      const auto plan = c.plan();
      EXPECT_EQ(experts_of(plan, 0)[0], 0u) << "ties: the smaller index first";
      EXPECT_EQ(experts_of(plan, 1)[0], 3u);
      EXPECT_EQ(experts_of(plan, 3)[0], 0u);
      for (const float w : plan.weights) EXPECT_TRUE(std::isfinite(w) && w >= 0) << w;
      for (std::uint32_t r = 0; r < c.rows() && norm; ++r) {
        const auto weights = weights_of(plan, r);
        EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-6) << "row " << r;
      }
      expect_transpose_agrees(plan);
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPlan, ::testing::ValuesIn(kEveryPolicy),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace lynx
