// The rule of LYNX itself: who stays, and who fills.
#include <gtest/gtest.h>

#include "tests/kernels/lynx/routing_case.h"

namespace lynx {
namespace {

// N = 4, k = 2: x = 2, W = 0.3466 nats, two bins. A vote within W of the row's first is decisive.
RoutingCase small_case(std::initializer_list<std::array<float, 4>> rows) {
  RoutingCase c{.shape = {.experts = 4, .top_k = 2}, .logits = {}, .live = {}, .exact = {}};
  for (const auto& row : rows) c.add_row(row);
  return c;
}

TEST(LynxRule, AWeakVoteMovesToAnExpertThatStays) {
  auto c = small_case({{5.0F, 4.9F, 0, 0}, {5.0F, 0, 4.0F, 1.0F}});
  const auto plan = c.plan();
  EXPECT_EQ(plan.active, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(experts_of(plan, 1)[1], 1u) << "expert 2 had one vote, 1 nat away; the row goes on with expert 1";
  EXPECT_EQ(plan.stats.routed_experts, 3u);
  EXPECT_EQ(plan.stats.remapped, 1u);
}

TEST(LynxRule, AVoteInsideTheWindowStays) {
  auto c = small_case({{5.0F, 4.9F, 0, 0}, {5.0F, 0, 4.8F, 1.0F}});
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(LynxRule, AUnanimousWeakVoteStays) {
  // Three rows agree on expert 3, far away; two of them alone would not be enough.
  auto c = small_case({{9.0F, 1, 0, 4.0F}, {1, 9.0F, 0, 4.0F}, {0, 1, 9.0F, 4.0F}});
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  c.row(2)[3] = 0.5F;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(LynxRule, FillsByVotesThenProbabilityThenIndex) {
  // Every row's first is expert 0, so one more is needed to reach k = 2.
  auto votes = small_case({{9, 2, 3, 0}, {9, 2, 3, 0}, {9, 4, 0, 1}});
  EXPECT_EQ(votes.plan().active, (std::vector<std::uint32_t>{0, 2})) << "two weak votes beat one";
  auto probability = small_case({{9, 0, 3, 2}, {9, 0, 2, 4}});
  EXPECT_EQ(probability.plan().active, (std::vector<std::uint32_t>{0, 3})) << "a vote each; more probability";
  auto index = small_case({{9, 0, 3, 0}, {9, 0, 0, 3}});
  EXPECT_EQ(index.plan().active, (std::vector<std::uint32_t>{0, 2})) << "equal in everything; smaller index";
}

TEST(LynxRule, OneRowIsTheIdentity) {
  for (const RouterShape shape :
       {RouterShape{.experts = 64, .top_k = 8}, RouterShape{.experts = 8, .top_k = 2},
        RouterShape{.experts = 5, .top_k = 5}, RouterShape{.experts = 9, .top_k = 1}})
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
      auto c = random_case(seed, 1, shape);
      c.policy.bins = seed % 7;
      c.policy.window = static_cast<float>(seed % 5) * 0.01F;
      auto off = c;
      off.policy = {.kind = PolicyKind::kOff};
      const auto plan = c.plan();
      EXPECT_TRUE(same_plan(plan, off.plan()));
      EXPECT_EQ(plan.stats.remapped, 0u);
      EXPECT_EQ(plan.stats.retained_mass_min, 1.0);
    }
}

TEST(LynxRule, ActiveExpertsNeverFallAsTheWindowGrows) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    auto c = random_case(seed, 2 + seed);
    std::uint32_t before = 0;
    for (float window = 0.05F; window < 12; window *= 1.07F) {
      c.policy.window = window;
      const auto now = c.plan().stats.activated_experts;
      EXPECT_GE(now, before) << "W = " << window;
      before = now;
    }
    EXPECT_EQ(before, c.plan().stats.routed_experts) << "a wide window remaps nothing";
  }
}

TEST(LynxRule, TheBaseIsTheNumberOfLiveRows) {
  // Two live rows agree on a weak expert: unanimous, whatever the padding holds.
  auto c = small_case({{9, 0, 1, 3}, {0, 9, 1, 3}});
  c.add_row(std::array<float, 4>{0, 0, 9, 0}, false);
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 3}));
}

TEST(LynxRule, AnExactRowBringsItsExpertsAndOthersUseThem) {
  auto c = small_case({{5, 4.9F, 0, 0}, {5, 0, 4.0F, 3.9F}, {5, 0.1F, 3, 2}});
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}));
  c.exact = {0, 1, 0};
  const auto plan = c.plan();
  EXPECT_EQ(plan.active, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(experts_of(plan, 2)[1], 2u);
}

TEST(LynxRule, SigmoidRoutersAreBinnedBeforeTheSigmoid) {
  // Scores far out on the sigmoid's flat end: probabilities differ by 1e-9, scores by a nat.
  auto c = small_case({{20, 19.9F, 0, 0}, {20, 0, 19.0F, 1}});
  c.shape.kind = RouterKind::kSigmoid;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}));
}

}  // namespace
}  // namespace lynx
