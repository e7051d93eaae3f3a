// What the experts that a row gets weigh.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/lynx/routing_case.h"

namespace lynx {
namespace {

ExpertPlan plan_with(RoutingCase c, WeightRule rule) {
  c.policy.weights = rule;
  return c.plan();
}

ExpertPlan exact_plan(RoutingCase c) {
  c.policy.kind = PolicyKind::kOff;
  return c.plan();
}

class EveryShape : public ::testing::TestWithParam<RouterShape> {
 protected:
  EveryShape() { case_.policy.keep = 1; }

  static constexpr std::uint32_t kRows = 16;
  RoutingCase case_{random_case(5, kRows, GetParam(), PolicyKind::kOea)};
};

TEST_P(EveryShape, AKeptExpertWeighsWhatItWeighsAlone) {
  const ExpertPlan alone = exact_plan(case_);
  for (const WeightRule rule : {WeightRule::kOwn, WeightRule::kKept}) {
    const ExpertPlan plan = plan_with(case_, rule);
    ASSERT_GT(plan.stats.remapped, 0U);
    for (std::uint32_t r = 0; r < kRows; ++r)
      for (std::uint32_t i = 0; i < plan.row_kept[r]; ++i) {
        const auto own = experts_of(alone, r);
        const auto at = std::find(own.begin(), own.end(), experts_of(plan, r)[i]) - own.begin();
        EXPECT_EQ(weights_of(plan, r)[i], weights_of(alone, r)[static_cast<std::size_t>(at)]) << "to the bit";
      }
  }
}

TEST_P(EveryShape, WhatTakesAnothersPlaceWeighsByTheRule) {
  const ExpertPlan own = plan_with(case_, WeightRule::kOwn);
  const ExpertPlan kept = plan_with(case_, WeightRule::kKept);
  const ExpertPlan renormalised = plan_with(case_, WeightRule::kRenormalised);
  EXPECT_EQ(own.experts, kept.experts) << "the rule chooses no experts";
  EXPECT_EQ(own.experts, renormalised.experts);
  EXPECT_EQ(own.row_mass_q24, renormalised.row_mass_q24);
  for (std::uint32_t r = 0; r < kRows; ++r)
    for (std::uint32_t i = own.row_kept[r]; i < own.top_k; ++i) {
      EXPECT_GT(weights_of(own, r)[i], 0);
      EXPECT_EQ(weights_of(kept, r)[i], 0);
      EXPECT_GT(weights_of(renormalised, r)[i], weights_of(own, r)[i]) << "for the ones that are missing";
    }
}

TEST_P(EveryShape, ExactRowsHaveTheWeightsOfTheModel) {
  const ExpertPlan alone = exact_plan(case_);
  case_.exact.assign(kRows, 0);
  case_.exact[3] = 1;
  for (const WeightRule rule : kEveryWeightRule)
    EXPECT_TRUE(std::ranges::equal(weights_of(plan_with(case_, rule), 3), weights_of(alone, 3)));
}

INSTANTIATE_TEST_SUITE_P(Shapes, EveryShape,
                         ::testing::Values(RouterShape{.experts = 64, .top_k = 8},
                                           RouterShape{.experts = 64, .top_k = 8, .norm_topk_prob = false},
                                           RouterShape{
                                               .experts = 64, .top_k = 8, .kind = RouterKind::kSigmoid},
                                           RouterShape{.experts = 32, .top_k = 2}));

TEST(WeightRules, ScoresThatAllVanishStillGiveWeights) {
  for (const WeightRule rule : kEveryWeightRule) {
    RoutingCase c = random_case(1, 2, {.experts = 16, .top_k = 4, .kind = RouterKind::kSigmoid});
    std::ranges::fill(c.row(0), -std::numeric_limits<float>::infinity());
    const ExpertPlan plan = plan_with(c, rule);
    for (const float weight : weights_of(plan, 0)) EXPECT_EQ(weight, 0.25F);
  }
}

TEST(WeightRules, NamesReadBack) {
  for (const WeightRule rule : kEveryWeightRule) EXPECT_EQ(*parse_weight_rule(to_string(rule)), rule);
  EXPECT_EQ(parse_weight_rule("all").error().message, "weights 'all' is not one of own, kept, renormalised");
}

}  // namespace
}  // namespace lynx
