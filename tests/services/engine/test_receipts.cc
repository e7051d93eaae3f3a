// lynx.receipt: what the steps tell of a sequence is what their plans did to it.
#include <gtest/gtest.h>

#include <map>

#include "services/engine/engine_core.h"
#include "services/engine/moe_transformer.h"
#include "tests/services/engine/tiny_sequence.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

constexpr std::uint32_t kTokens = 12;
constexpr std::uint32_t kSequences = 8;

Sequence sequence(std::uint32_t s) {
  Sequence out = testing::tiny_sequence(s, kTokens);
  out.sampling.receipt = true;
  return out;
}

// A real model; every step as the engine tells it, with the statistics of its plans.
class Receipts : public ::testing::Test {
 protected:
  struct Step {
    StepDone done;
    std::uint64_t remapped = 0;  // of all rows and layers, by the plans
    double mass = 0;
  };

  std::vector<Step> run(const std::vector<Sequence>& sequences, const RoutePolicy& policy) {
    PageLayout layout = page_layout(model_->config(), 0, 8, KvDtype::kF32);
    layout.blocks = kSequences * testing::kTinyBlocks;
    KvCache cache(layout);
    MetricsRegistry registry;
    EngineMetrics metrics(registry);
    SteadyClock clock;
    std::vector<Step> steps;
    EngineCore core({.limits = {.max_batch = kSequences, .chunk_tokens = 64}, .policy = policy}, *model_,
                    cache, clock, metrics, [&](EngineEvent event) {
                      if (auto* done = std::get_if<StepDone>(&event)) steps.push_back({std::move(*done)});
                    });
    for (const Sequence& s : sequences) core.apply(AdmitSequence{s});
    while (!core.idle()) {
      core.step();
      if (steps.back().done.phase == Phase::kDecode) add_plans(steps.back());
    }
    return steps;
  }

  void add_plans(Step& step) {
    ExpertPlan plan;
    for (std::uint32_t layer = 0; layer < model_->config().layers; ++layer) {
      model_->read_plan(layer, plan);
      step.remapped += plan.stats.remapped;
      step.mass += plan.stats.retained_mass_sum / model_->config().layers;
    }
  }

  std::uint32_t assignments() const { return model_->config().layers * model_->config().router.top_k; }

  const std::unique_ptr<Model> model_ = load_model(source_path("tests/golden/tiny_gqa"));
};

std::vector<Sequence> company() {
  std::vector<Sequence> out;
  for (std::uint32_t s = 0; s < kSequences; ++s) out.push_back(sequence(s));
  return out;
}

// Field report 14.
TEST_F(Receipts, AddUpToThePlansOfTheStep) {
  for (const RoutePolicy& policy : {RoutePolicy{.kind = PolicyKind::kLynx, .window = 0.05F},
                                    RoutePolicy{.kind = PolicyKind::kOea, .keep = 1},
                                    RoutePolicy{.kind = PolicyKind::kEnergy, .energy = 8},
                                    RoutePolicy{.kind = PolicyKind::kTopKReduced, .keep = 1}}) {
    SCOPED_TRACE(to_string(policy.kind));
    std::uint64_t all_remapped = 0;
    bool mass_lost = false;
    for (const Step& step : run(company(), policy)) {
      if (step.done.phase == Phase::kPrefill) continue;
      std::uint64_t remapped = 0;
      double mass = 0;
      for (const SequenceToken& token : step.done.tokens) {
        ASSERT_TRUE(token.receipt);
        EXPECT_EQ(token.receipt->assignments, assignments());
        EXPECT_EQ(token.receipt->batch, step.done.sequences);
        remapped += token.receipt->remapped;
        mass += token.receipt->router_mass;
        mass_lost |= token.receipt->router_mass < 1;
      }
      EXPECT_EQ(remapped, step.remapped);
      EXPECT_NEAR(mass, step.mass, 1e-5);
      all_remapped += remapped;
    }
    EXPECT_TRUE(mass_lost) << "a test of receipts needs rows that are remapped";
    EXPECT_EQ(all_remapped > 0, policy.kind != PolicyKind::kTopKReduced)
        << "that one drops, and moves nothing";
  }
}

TEST_F(Receipts, OfPrefillThereIsNone) {
  std::map<SequenceId, std::uint32_t> receipts, tokens;
  for (const Step& step : run(company(), {.kind = PolicyKind::kLynx}))
    for (const SequenceToken& token : step.done.tokens) {
      ++tokens[token.sequence];
      receipts[token.sequence] += token.receipt ? 1 : 0;
      EXPECT_EQ(token.receipt.has_value(), step.done.phase == Phase::kDecode);
    }
  for (std::uint32_t s = 0; s < kSequences; ++s) {
    EXPECT_EQ(tokens[s], kTokens);
    EXPECT_EQ(receipts[s], kTokens - 1) << "the first token is prefill's";
  }
}

void expect_untouched(const StepReceipt& receipt, std::uint32_t batch) {
  EXPECT_EQ(receipt.remapped, 0U);
  EXPECT_EQ(receipt.router_mass, 1.0F);
  EXPECT_EQ(receipt.batch, batch);
}

TEST_F(Receipts, ARowAloneKeepsEverything) {
  for (const Step& step : run({sequence(0)}, {.kind = PolicyKind::kLynx}))
    for (const SequenceToken& token : step.done.tokens)
      if (token.receipt) expect_untouched(*token.receipt, 1);
}

TEST_F(Receipts, PolicyOffAndExactRowsKeepEverythingInCompany) {
  for (const Step& step : run(company(), {.kind = PolicyKind::kOff}))
    for (const SequenceToken& token : step.done.tokens)
      if (token.receipt) expect_untouched(*token.receipt, step.done.sequences);
  auto sequences = company();
  sequences[3].sampling.exact = true;
  for (const Step& step : run(sequences, {.kind = PolicyKind::kOea, .keep = 1}))
    for (const SequenceToken& token : step.done.tokens)
      if (token.receipt && token.sequence == 3) expect_untouched(*token.receipt, step.done.sequences);
}

TEST_F(Receipts, OnlyWhoAsksGetsOne) {
  auto sequences = company();
  for (Sequence& s : sequences) s.sampling.receipt = s.id == 5;
  for (const Step& step : run(sequences, {.kind = PolicyKind::kLynx}))
    for (const SequenceToken& token : step.done.tokens)
      EXPECT_EQ(token.receipt.has_value(), token.sequence == 5 && step.done.phase == Phase::kDecode);
}

}  // namespace
}  // namespace lynx
