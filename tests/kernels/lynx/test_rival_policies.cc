// What is particular to each rival policy.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/lynx/routing_case.h"

namespace lynx {
namespace {

RoutingCase case_of(PolicyKind kind, std::initializer_list<std::array<float, 4>> rows) {
  RoutingCase c{
      .shape = {.experts = 4, .top_k = 2}, .policy = {.kind = kind}, .logits = {}, .live = {}, .exact = {}};
  for (const auto& row : rows) c.add_row(row);
  return c;
}

TEST(Off, KeepsEveryTopK) {
  auto c = random_case(1, 16, {.experts = 64, .top_k = 8}, PolicyKind::kOff);
  const auto plan = c.plan();
  for (std::uint32_t r = 0; r < c.rows(); ++r)
    EXPECT_TRUE(std::ranges::equal(experts_of(plan, r), exact_top(c.row(r), 8)));
  EXPECT_EQ(plan.stats.activated_experts, plan.stats.routed_experts);
  EXPECT_EQ(plan.stats.retained_mass_sum, 16.0);
}

TEST(Share, CutsAtTheShareOfARowsOwnTopK) {
  // Second experts with 45 % and 35 % of their rows' top-2: c/k = 0.4 keeps the first alone.
  const float near = std::log(45.0F / 55), far = std::log(35.0F / 65);
  auto c = case_of(PolicyKind::kShare, {{0, near, -9, -9}, {0, -9, far, -9}});
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}));
  c.policy.share = 0.6F;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 2}));
  c.policy.share = 0;
  EXPECT_EQ(c.plan().stats.remapped, 0u);
  c.policy.share = 8;
  EXPECT_EQ(c.plan().active.size(), 2u) << "nothing qualifies: the firsts stay, filled to k";
}

TEST(Oea, KeepsTheFirstRanksAndFillsFromThem) {
  auto c = case_of(PolicyKind::kOea, {{9, 8, 0, 0}, {0, 9, 1, 8}, {9, 0, 0, 8}});
  c.policy.keep = 1;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}));
  c.policy.keep = 2;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 3}));
}

TEST(Oea, FillsUpToKByProbability) {
  auto c = case_of(PolicyKind::kOea, {{9, 8, 0, 0}, {9, 0, 7, 8}});
  c.policy.keep = 1;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}))
      << "equal probability at 8: the smaller index";
}

TEST(Xshare, SpendsItsBudgetOnBatchProbabilityAndAddsTheFirsts) {
  auto c = case_of(PolicyKind::kXshare, {{9, 8.9F, 0, 0}, {9, 8.9F, 0, 0}, {0, 0, 5, 4}});
  c.policy.budget = 2;
  // Probability sums: 1.05, 0.95, 0.72, 0.27.
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 2}));
  c.policy.budget = 4;
  EXPECT_EQ(c.plan().stats.remapped, 0u);
}

TEST(TopKReduced, LeavesTrailingSlotsEmpty) {
  auto c = random_case(2, 4, {.experts = 64, .top_k = 8}, PolicyKind::kTopKReduced);
  c.policy.keep = 3;
  c.exact = {0, 0, 1, 0};
  const auto plan = c.plan();
  for (const std::uint32_t r : {0U, 1U, 3U}) {
    expect_row_is_sound(c, plan, r, 3);
    EXPECT_TRUE(std::ranges::equal(experts_of(plan, r).first(3), exact_top(c.row(r), 3)));
    for (std::uint32_t slot = 3; slot < 8; ++slot) {
      EXPECT_EQ(experts_of(plan, r)[slot], ExpertPlan::kNoExpert);
      EXPECT_EQ(weights_of(plan, r)[slot], 0.0F);
    }
  }
  expect_row_is_sound(c, plan, 2, 8);
  expect_transpose_agrees(plan);
}

TEST(Sweep, EveryRowKeepsItsPart) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    auto c = random_case(seed, 2 + seed, {.experts = 64, .top_k = 8}, PolicyKind::kSweep);
    std::uint32_t before = 0;
    for (const float part : {0.0F, 0.5F, 0.8F, 0.95F, 1.0F}) {
      c.policy.part = part;
      const auto plan = c.plan();
      EXPECT_GE(plan.stats.retained_mass_min, part - 1e-4);
      EXPECT_GE(plan.stats.activated_experts, before);
      before = plan.stats.activated_experts;
    }
    EXPECT_EQ(before, c.plan().stats.routed_experts);
  }
}

TEST(Sweep, TheLeastWantedGoFirst) {
  auto c = case_of(PolicyKind::kSweep, {{0, -1.5F, -9, -9}, {0, -9, -1.4F, -9}, {0, -1.5F, -9, -9}});
  c.policy.part = 0.75F;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}))
      << "one row wants 2, two rows want 1; k stay";
}

TEST(DenyRank, EveryRowLosesThatRankAndTakesItsNext) {
  auto c = random_case(4, 6, {.experts = 64, .top_k = 8}, PolicyKind::kDenyRank);
  c.exact = {0, 0, 1, 0, 0, 0};
  for (const std::uint32_t rank : {1U, 3U, 8U}) {
    c.policy.keep = rank;
    const auto plan = c.plan();
    for (std::uint32_t r = 0; r < 6; ++r) {
      auto expected = exact_top(c.row(r), 9);
      if (r == 2)
        expected.pop_back();
      else
        expected.erase(expected.begin() + (rank - 1));
      EXPECT_TRUE(std::ranges::equal(experts_of(plan, r), expected)) << "row " << r << " rank " << rank;
    }
    EXPECT_EQ(plan.stats.remapped, 5u);
    expect_transpose_agrees(plan);
  }
}

TEST(DenyRank, WithNothingElseToTakeARowKeepsItsOwn) {
  auto c = random_case(4, 6, {.experts = 4, .top_k = 4}, PolicyKind::kDenyRank);
  EXPECT_EQ(c.plan().stats.remapped, 0u);
}

}  // namespace
}  // namespace lynx
