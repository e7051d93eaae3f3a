// The energy rule: what it keeps, what it promises to a row, and the rule for one expert to a row.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/lynx/recordings.h"
#include "tests/kernels/lynx/routing_case.h"

namespace lynx {
namespace {

RoutingCase energy_case(RouterShape shape, std::initializer_list<std::vector<float>> probabilities) {
  RoutingCase c{
      .shape = shape, .policy = {.kind = PolicyKind::kEnergy}, .logits = {}, .live = {}, .exact = {}};
  for (const auto& row : probabilities) {
    std::vector<float> logits;
    for (const float p : row) logits.push_back(std::log(p));
    c.add_row(logits);
  }
  return c;
}

// Router probability of the experts that row r got, over that of those it chose.
double served(RoutingCase& c, const ExpertPlan& plan, std::uint32_t r) {
  const auto p = probabilities(c.row(r), c.shape.kind);
  double got = 0, wanted = 0;
  for (const auto e : experts_of(plan, r)) got += p[e];
  for (const auto e : exact_top(c.row(r), c.shape.top_k)) wanted += p[e];
  return got / wanted;
}

// N = 8, k = 2, B = 2: the threshold is 2/3 of 1/8, a share of 0.289 in one row.
TEST(EnergyRule, CutsAtOneRowsEnergyOverAllExperts) {
  auto c = energy_case({.experts = 8, .top_k = 2}, {{.70F, .30F, 1e-3F, 1e-3F, 1e-3F, 1e-3F, 1e-3F, 1e-3F},
                                                    {.72F, 1e-3F, .28F, 1e-3F, 1e-3F, 1e-3F, 1e-3F, 1e-3F}});
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1})) << "0.30 is enough, 0.28 is not";
  c.policy.energy = 0.9F;
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(EnergyRule, SquaresOfRowsAddUp) {
  // 0.22^2 is under the threshold of 3/4 of 1/8 = 0.094 in one row, and twice it is at 0.097.
  auto c = energy_case({.experts = 8, .top_k = 2}, {{.78F, .22F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F},
                                                    {.78F, 1e-4F, 1e-4F, .22F, 1e-4F, 1e-4F, 1e-4F, 1e-4F},
                                                    {.60F, .40F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F}});
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}));
  auto agreed =
      energy_case({.experts = 8, .top_k = 2}, {{.78F, 1e-4F, 1e-4F, .22F, 1e-4F, 1e-4F, 1e-4F, 1e-4F},
                                               {.78F, 1e-4F, 1e-4F, .22F, 1e-4F, 1e-4F, 1e-4F, 1e-4F},
                                               {.60F, .40F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F, 1e-4F}});
  EXPECT_EQ(agreed.plan().active, (std::vector<std::uint32_t>{0, 1, 3}));
}

TEST(EnergyRule, EveryTokenGetsHalfOfWhatItChose) {
  for (const RouterShape shape :
       {RouterShape{.experts = 64, .top_k = 8}, RouterShape{.experts = 32, .top_k = 2},
        RouterShape{.experts = 128, .top_k = 8}, RouterShape{.experts = 16, .top_k = 1},
        RouterShape{.experts = 64, .top_k = 6, .kind = RouterKind::kSigmoid},
        RouterShape{.experts = 16, .top_k = 1, .kind = RouterKind::kSigmoid}})
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
      auto c = random_case(seed, 1 + seed, shape, PolicyKind::kEnergy);
      // Also where the threshold alone would keep nothing.
      for (const float factor : {0.25F, 1.0F, 4.0F, 64.0F}) {
        c.policy.energy = factor;
        const auto plan = c.plan();
        for (std::uint32_t r = 0; r < c.rows(); ++r) EXPECT_GE(served(c, plan, r), 0.5 - 1e-7);
      }
    }
}

TEST(EnergyRule, ATrainedRoutersTokensGetHalfAndTheBatchReadsLess) {
  const auto recorded = sample_logits();
  double lynx = 0, energy = 0;
  for (std::size_t layer = 0; layer < recorded.layers; ++layer) {
    RoutingCase c{.policy = {.kind = PolicyKind::kEnergy}, .logits = {}, .live = {}, .exact = {}};
    for (std::size_t i = 0; i < 16; ++i) c.add_row(recorded.row(layer, i * 4, 0));
    const auto plan = c.plan();
    for (std::uint32_t r = 0; r < 16; ++r) EXPECT_GE(served(c, plan, r), 0.5);
    energy += plan.stats.activated_experts;
    c.policy.kind = PolicyKind::kLynx;
    lynx += c.plan().stats.activated_experts;
  }
  EXPECT_LT(energy, lynx);
}

TEST(EnergyRule, ActiveExpertsNeverRiseWithTheFactor) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    auto c = random_case(seed, 2 + seed, {.experts = 64, .top_k = 8}, PolicyKind::kEnergy);
    c.policy.energy = 1e-6F;
    std::uint32_t before = c.plan().stats.activated_experts;
    EXPECT_EQ(before, c.plan().stats.routed_experts) << "a low price keeps everything";
    for (float factor = 0.02F; factor < 60; factor *= 1.3F) {
      c.policy.energy = factor;
      const auto now = c.plan().stats.activated_experts;
      EXPECT_LE(now, before) << factor;
      before = now;
    }
  }
}

TEST(EnergyRule, OneRowIsTheIdentity) {
  for (const RouterShape shape :
       {RouterShape{.experts = 64, .top_k = 8}, RouterShape{.experts = 5, .top_k = 5},
        RouterShape{.experts = 16, .top_k = 1}})
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      auto c = random_case(seed, 1, shape, PolicyKind::kEnergy);
      c.policy.energy = 64;
      EXPECT_EQ(c.plan().stats.remapped, 0u);
    }
}

// N = 4, k = 1: no row's share says anything; the margin of its first over its second does.
TEST(EnergyRule, WithOneExpertARowWithoutConfidenceMoves) {
  auto c = energy_case({.experts = 4, .top_k = 1},
                       {{.90F, .05F, .03F, .02F}, {.40F, .41F, .10F, .09F}, {.05F, .03F, .90F, .02F}});
  const auto plan = c.plan();
  EXPECT_EQ(plan.active, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(experts_of(plan, 1)[0], 0u) << "nearly as good as its own first";
  EXPECT_EQ(plan.stats.remapped, 1u);
}

TEST(EnergyRule, WithOneExpertARowThatIsNotServedBringsItsOwn) {
  auto c = energy_case({.experts = 4, .top_k = 1},
                       {{.90F, .05F, .03F, .02F}, {.02F, .50F, .02F, .46F}, {.90F, .05F, .03F, .02F}});
  EXPECT_EQ(c.plan().active, (std::vector<std::uint32_t>{0, 1}))
      << "no confidence, but expert 0 would give it a twentieth of what it chose";
}

}  // namespace
}  // namespace lynx
