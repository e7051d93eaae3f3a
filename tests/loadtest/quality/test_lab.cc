// The laboratory on a tiny model: what must be zero is zero, and what policies change shows.
#include <gtest/gtest.h>

#include <numeric>

#include "loadtest/quality/affinity.h"
#include "loadtest/quality/curves.h"
#include "loadtest/quality/placement.h"
#include "loadtest/quality/sensitivity.h"
#include "services/engine/moe_transformer.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

class Lab : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kDocuments = 8, kPrefix = 6, kLength = 14;

  Lab() : model_(load_model(source_path("tests/golden/tiny_gqa"))), exact_(*model_, documents(), kPrefix) {
    order_ = mixed_order(exact_, 1);
  }
  static std::vector<Document> documents() {
    std::vector<Document> out(kDocuments);
    for (std::uint32_t d = 0; d < kDocuments; ++d) {
      out[d].topic = d % 2;
      for (std::uint32_t i = 0; i < kLength; ++i) out[d].tokens.push_back((d * 37 + i * i * 11) % 256);
    }
    return out;
  }
  RunOutcome run(const RoutePolicy& policy, std::uint32_t batch) {
    return run_lockstep(exact_, {.policy = policy, .batch = batch, .order = order_});
  }

  std::unique_ptr<Model> model_;
  ExactRun exact_;
  std::vector<std::size_t> order_;
};

TEST_F(Lab, WithoutRemappingNothingChanges) {
  const auto off = run({.kind = PolicyKind::kOff}, 4);
  ASSERT_EQ(off.documents.size(), kDocuments);
  for (const auto& d : off.documents) {
    EXPECT_EQ(d.loss_change, 0) << "decode in company gives the bits of prefill alone";
    EXPECT_EQ(d.kl, 0);
    EXPECT_EQ(d.agreement, 1);
    EXPECT_EQ(d.mass, 1);
    EXPECT_EQ(d.worst_mass, 1);
  }
  EXPECT_EQ(off.routed, off.activated);
  EXPECT_EQ(off.steps, kDocuments / 4 * (kLength - kPrefix));
}

TEST_F(Lab, APolicyReadsFewerExpertsAndPays) {
  const auto lynx = run({.kind = PolicyKind::kTopKReduced, .keep = 1}, 4);
  double kl = 0;
  for (const auto& d : lynx.documents) {
    kl += d.kl;
    EXPECT_LT(d.mass, 1);
    EXPECT_LE(d.worst_mass, d.mass);
    EXPECT_GT(d.remapped, 0);
  }
  EXPECT_GT(kl, 0);
  for (std::size_t l = 0; l < lynx.routed.size(); ++l) EXPECT_LT(lynx.activated[l], lynx.routed[l]);
}

TEST_F(Lab, ExactRowsChangeNothingForThemselves) {
  LockstepPlan plan{.policy = {.kind = PolicyKind::kOea, .keep = 1}, .batch = 4, .order = order_};
  plan.exact_rows = 2;
  const auto mixed = run_lockstep(exact_, plan);
  double others = 0;
  for (std::size_t d = 0; d < mixed.documents.size(); ++d) {
    if (d % 4 < 2) {
      EXPECT_EQ(mixed.documents[d].kl, 0);
    } else {
      others += mixed.documents[d].kl;
    }
  }
  EXPECT_GT(others, 0);
}

TEST_F(Lab, ARestoredPrefixIsTheExactOne) {
  LockstepPlan plan{.policy = {.kind = PolicyKind::kOff}, .batch = 8, .order = order_};
  plan.prefix_policy = {.kind = PolicyKind::kOea, .keep = 1};
  plan.remap_prefix_rows = 4;
  double kl = 0;
  for (const auto& d : run_lockstep(exact_, plan).documents) kl += d.kl;
  EXPECT_GT(kl, 0) << "remapped keys and values stay in the cache";
  exact_.restore_prefix();
  for (const auto& d : run({.kind = PolicyKind::kOff}, 8).documents) EXPECT_EQ(d.kl, 0);
}

TEST_F(Lab, EveryPartFillsItsResults) {
  Results results;
  CurvePlan curves;
  for (const char* policy : {"lynx", "energy", "share", "sweep", "off"})
    for (auto& s : settings_of(policy, model_->config().router, false)) curves.settings.push_back(s);
  curves.batches = {2, 4};
  SensitivityPlan sensitivity{.policies = settings_of("lynx", model_->config().router, true), .batch = 4};
  Progress progress(1, true);
  for (const std::uint64_t seed : {1, 2}) {
    measure_curves(exact_, curves, seed, results, progress);
    measure_sensitivity(exact_, sensitivity, seed, results, progress);
    measure_affinity(exact_, {2, 4}, seed, results.affinity);
    measure_placement(exact_, {2, 4}, seed, results.placement);
  }
  std::size_t defaults = 0;
  for (const auto& s : curves.settings) defaults += s.is_default ? 1 : 0;
  EXPECT_EQ(results.cells.size(), 2 * (curves.settings.size() + defaults));
  EXPECT_EQ(count_curves(curves, kDocuments), results.cells.size());
  for (const Cell& c : results.cells) {
    EXPECT_EQ(c.routed.samples(), 2u) << "one per seed";
    EXPECT_EQ(c.loss_change.samples(), 2 * kDocuments) << "one per document";
    EXPECT_GE(c.routed.mean(), c.activated.mean() - 1e-9) << c.label;
  }
  EXPECT_EQ(results.ranks.size(), model_->config().router.top_k);
  EXPECT_EQ(results.ranks[0].by_confidence.size(), 4u);
  EXPECT_EQ(results.phases.size(), 2u);
  EXPECT_EQ(results.exact_cost.size(), 4u);
  EXPECT_EQ(results.affinity.own.size(), model_->config().layers);
  EXPECT_LE(results.affinity.unions[1].random.mean(), 12);
  EXPECT_GE(results.affinity.unions[1].random.mean(), results.affinity.unions[0].random.mean());
  const double top_k = model_->config().router.top_k;
  for (const PlacementGain& gain : results.placement)
    for (const PlacementGain::Run* run : {&gain.least_loaded, &gain.by_topic, &gain.by_own}) {
      EXPECT_EQ(run->experts.samples(), 2u) << "one per seed";
      EXPECT_GE(run->experts.mean(), top_k);
      EXPECT_LE(run->per_token.mean(), top_k) << "a batch reads each expert once";
      EXPECT_GE(run->fullest.mean(), 1);
      EXPECT_LE(run->fullest.mean(), 2) << "1.5 at selection, and the others may leave";
    }
}

TEST(RankCorrelation, KnowsOrderAndTies) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {10, 20, 30, 400}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_NEAR(rank_correlation({1, 2, 2, 3}, {1, 3, 2, 4}), 0.9487, 1e-4) << "ties share their mean rank";
  EXPECT_EQ(rank_correlation({1, 1, 1}, {1, 2, 3}), 0) << "no order, no correlation";
}

TEST(EstimateOf, MeanAndStandardError) {
  Estimate e;
  for (const double x : {2.0, 4.0, 9.0}) e.add(x);
  EXPECT_DOUBLE_EQ(e.mean(), 5);
  EXPECT_NEAR(e.error(), std::sqrt(13.0 / 3), 1e-12);
}

}  // namespace
}  // namespace lynx
