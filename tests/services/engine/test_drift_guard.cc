// The drift guard: what it measures, when it tightens and relaxes, and that looking changes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "kernels/lynx/reference.h"
#include "services/engine/engine_core.h"
#include "services/engine/moe_transformer.h"
#include "tests/services/engine/tiny_sequence.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

const RouterShape kShape{.experts = 64, .top_k = 8};

TEST(CompareLogits, IsTheDivergenceOfTheTwoDistributions) {
  const std::vector<float> p{std::log(0.5F), std::log(0.25F), std::log(0.25F)};
  const std::vector<float> q{std::log(0.25F) + 3, std::log(0.5F) + 3, std::log(0.25F) + 3};
  EXPECT_NEAR(compare_logits(p, q).kl, 0.25 * std::log(2), 1e-6);
  EXPECT_TRUE(compare_logits(p, q).flipped);
  EXPECT_NEAR(compare_logits(p, p).kl, 0, 1e-12);
  EXPECT_FALSE(compare_logits(p, p).flipped);
  const std::vector<float> broken{0, std::numeric_limits<float>::quiet_NaN(), 1};
  const std::vector<float> endless{0, std::numeric_limits<float>::infinity(), 1};
  EXPECT_EQ(compare_logits(p, broken).kl, 0);
  EXPECT_EQ(compare_logits(endless, p).kl, 0);
  const std::vector<float> banned{0, -std::numeric_limits<float>::infinity(), 1};
  EXPECT_TRUE(std::isfinite(compare_logits(p, banned).kl));
}

TEST(Tightened, EveryStepMovesFewerAssignmentsUntilNone) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1.5F);
  std::vector<float> logits(16 * kShape.experts);
  for (float& z : logits) z = normal(random);
  const std::vector<std::uint8_t> live(16, 1);
  for (const PolicyKind kind : {PolicyKind::kLynx, PolicyKind::kEnergy, PolicyKind::kShare, PolicyKind::kOea,
                                PolicyKind::kXshare, PolicyKind::kTopKReduced}) {
    const RoutePolicy configured{.kind = kind, .keep = 2};
    std::uint32_t before = ~0U;
    for (std::uint32_t level = 0; level <= kDriftLevels; ++level) {
      const RoutePolicy policy = tightened(configured, kShape, level);
      ASSERT_TRUE(check_policy(kShape, policy).ok());
      ExpertPlan plan;
      route_reference(plan, logits, kShape, policy, {live, {}});
      EXPECT_LE(plan.stats.remapped, before) << to_string(kind) << " at level " << level;
      before = plan.stats.remapped;
    }
    EXPECT_EQ(before, 0U);
  }
}

TEST(DriftGuard, SamplesOneStepInSoManyThatHaveCompany) {
  DriftGuard guard({.sample_every = 5}, {.kind = PolicyKind::kLynx}, kShape);
  int sampled = 0;
  for (int step = 0; step < 50; ++step) {
    EXPECT_FALSE(guard.samples_step(1)) << "a row alone keeps its experts";
    sampled += guard.samples_step(8) ? 1 : 0;
  }
  EXPECT_EQ(sampled, 10);
  DriftGuard off({.sample_every = 5}, {.kind = PolicyKind::kOff}, kShape);
  DriftGuard never({.sample_every = 0}, {.kind = PolicyKind::kLynx}, kShape);
  for (int step = 0; step < 20; ++step) {
    EXPECT_FALSE(off.samples_step(8));
    EXPECT_FALSE(never.samples_step(8));
  }
}

TEST(DriftGuard, TightensStepByStepAndRelaxesAgain) {
  DriftGuard guard({.sample_every = 1, .kl = 0.1F}, {.kind = PolicyKind::kLynx}, kShape);
  EXPECT_FALSE(guard.observe({5.0, true})) << "one odd token changes nothing";
  int changes = 1;
  while (guard.level() < kDriftLevels) ASSERT_LT(changes += guard.observe({0.5, true}) ? 1 : 0, 20);
  EXPECT_EQ(guard.policy().kind, PolicyKind::kOff);
  for (int i = 0; i < 500; ++i) guard.observe({0.07, false});
  EXPECT_EQ(guard.level(), kDriftLevels) << "under the limit, but not far under it";
  for (int i = 0; i < 500; ++i) guard.observe({0.01, false});
  EXPECT_EQ(guard.level(), 0U);
  EXPECT_EQ(guard.policy().window, 0) << "as configured";
}

// A real model whose rows are remapped.
class GuardedEngine : public ::testing::Test {
 protected:
  std::map<SequenceId, std::vector<TokenId>> run(const DriftLimits& drift) {
    PageLayout layout = page_layout(model_->config(), 0, 8, KvDtype::kF32);
    layout.blocks = 8 * testing::kTinyBlocks;
    KvCache cache(layout);
    registry_ = std::make_unique<MetricsRegistry>();
    EngineMetrics metrics(*registry_);
    SteadyClock clock;
    std::map<SequenceId, std::vector<TokenId>> tokens;
    const RoutePolicy policy{.kind = PolicyKind::kOea, .keep = 1};
    EngineCore core({.limits = {.max_batch = 8, .chunk_tokens = 64}, .policy = policy, .drift = drift},
                    *model_, cache, clock, metrics, [&](EngineEvent event) {
                      if (auto* step = std::get_if<StepDone>(&event))
                        for (const auto& t : step->tokens) tokens[t.sequence].push_back(t.token.token);
                    });
    for (std::uint32_t s = 0; s < 8; ++s) core.apply(AdmitSequence{testing::tiny_sequence(s, 50)});
    while (!core.idle()) core.step();
    return tokens;
  }
  double metric(const std::string& name) const {
    const std::string text = registry_->serialize();
    const auto at = text.find("\nlynx_" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 7));
  }

 private:
  const std::unique_ptr<Model> model_ = load_model(source_path("tests/golden/tiny_gqa"));
  std::unique_ptr<MetricsRegistry> registry_;
};

TEST_F(GuardedEngine, LookingChangesNoToken) {
  const auto unwatched = run({});
  EXPECT_EQ(metric("drift_kl_count"), 0);
  const auto watched = run({.sample_every = 2, .kl = 1e6F});
  EXPECT_EQ(watched, unwatched);
  EXPECT_GE(metric("drift_kl_count"), 20);
  EXPECT_GT(metric("drift_kl_sum"), 0) << "remapped rows drift";
  EXPECT_EQ(metric("drift_tightening"), 0);
}

TEST_F(GuardedEngine, PastTheLimitThePolicyTightens) {
  run({.sample_every = 1, .kl = 1e-7F});
  EXPECT_GT(metric("drift_tightening"), 0);
}

}  // namespace
}  // namespace lynx
