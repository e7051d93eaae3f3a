#include <gtest/gtest.h>

#include "tests/services/engine/engine_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::seconds;

TEST(EngineCore, GeneratesToTheLengthAndEndsOnce) {
  EngineBench bench;
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3}, 5)});
  const auto steps = bench.run();
  EXPECT_LE(tokens_of(steps, 1).size(), 5U);
  const auto ends = ends_of(steps, 1);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_TRUE(ends[0].why.ok());
}

// Field report 8: N is N, and 1 is 1.
TEST(EngineCore, MaxTokensIsExact) {
  FakeModelOptions endless;
  endless.eos = {};
  for (const std::uint32_t n : {1U, 2U, 7U}) {
    EngineBench bench({}, 64, endless);
    bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3}, n)});
    const auto steps = bench.run();
    ASSERT_EQ(tokens_of(steps, 1).size(), n);
    const SampledTokenData& last = steps.back().tokens.back().token;
    EXPECT_EQ(last.finish, static_cast<std::uint8_t>(FinishReason::kLength));
    EXPECT_EQ(last.index, n - 1);
  }
}

TEST(EngineCore, EndOfSequenceEndsUnlessIgnoredOrTooEarly) {
  EngineBench first;
  first.core.apply(AdmitSequence{first.sequence(1, {5, 6}, 40)});
  const auto free_run = tokens_of(first.run(), 1);
  ASSERT_GE(free_run.size(), 3U);
  FakeModelOptions options;
  options.eos = {free_run[2]};  // whatever comes third

  EngineBench stops({}, 64, options);
  stops.core.apply(AdmitSequence{stops.sequence(1, {5, 6}, 40)});
  const auto steps = stops.run();
  EXPECT_EQ(tokens_of(steps, 1).size(), 3U);
  EXPECT_EQ(steps.back().tokens.back().token.finish, static_cast<std::uint8_t>(FinishReason::kStop));

  EngineBench ignores({}, 64, options);
  Sequence ignoring = ignores.sequence(1, {5, 6}, 10);
  ignoring.sampling.ignore_eos = true;
  ignores.core.apply(AdmitSequence{std::move(ignoring)});
  EXPECT_EQ(tokens_of(ignores.run(), 1).size(), 10U);

  EngineBench waits({}, 64, options);
  Sequence patient = waits.sequence(1, {5, 6}, 40);
  patient.sampling.min_tokens = 6;
  waits.core.apply(AdmitSequence{std::move(patient)});
  EXPECT_GE(tokens_of(waits.run(), 1).size(), 7U);
}

TEST(EngineCore, TheContextsEndEndsASequence) {
  FakeModelOptions options;
  options.context = 12;
  options.eos = {};
  EngineBench bench({}, 64, options);
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3}, 1000)});
  EXPECT_EQ(tokens_of(bench.run(), 1).size(), 9U);
}

TEST(EngineCore, ChunksAndBatchMatesChangeNothing) {
  std::vector<TokenId> prompt;
  for (TokenId t = 0; t < 30; ++t) prompt.push_back(t * 3 % 101);
  EngineBench alone;
  alone.core.apply(AdmitSequence{alone.sequence(1, prompt, 12)});
  const auto expected = tokens_of(alone.run(), 1);

  EngineConfig config;
  config.limits = {3, 7};
  EngineBench crowded(config, 128);
  crowded.core.apply(AdmitSequence{crowded.sequence(2, {9, 8, 7, 6}, 20, 40)});
  crowded.core.apply(AdmitSequence{crowded.sequence(1, prompt, 12)});
  crowded.core.apply(AdmitSequence{crowded.sequence(3, prompt, 5, 80)});
  EXPECT_EQ(tokens_of(crowded.run(), 1), expected);
}

// The prompts of a burst are computed in as few steps as their tokens fill, and each as if it were alone.
TEST(EngineCore, ShortPromptsShareTheChunkOfAStep) {
  const auto prompt = [](SequenceId id) {
    return std::vector<TokenId>{static_cast<TokenId>(id), 11, 22, 33, 44, static_cast<TokenId>(60 + id)};
  };
  EngineConfig config;
  config.limits = {8, 16};
  EngineBench burst(config, 128);
  for (SequenceId id = 1; id <= 5; ++id)
    burst.core.apply(AdmitSequence{burst.sequence(id, prompt(id), 4, static_cast<BlockId>(20 * id))});
  const auto steps = burst.run();

  std::vector<std::uint32_t> shared, rows;
  for (const StepDone& step : steps) {
    if (step.phase != Phase::kPrefill) continue;
    shared.push_back(step.sequences);
    rows.push_back(step.rows);
  }
  EXPECT_EQ(shared, (std::vector<std::uint32_t>{3, 3}));
  EXPECT_EQ(rows, (std::vector<std::uint32_t>{16, 14}));
  for (SequenceId id = 1; id <= 5; ++id) {
    EngineBench alone;
    alone.core.apply(AdmitSequence{alone.sequence(id, prompt(id), 4)});
    EXPECT_EQ(tokens_of(steps, id), tokens_of(alone.run(), id)) << "prompt " << id;
  }
}

TEST(EngineCore, ASequenceJoinsAtTheNextStepAndLeavesItsSlot) {
  FakeModelOptions endless;
  endless.eos = {};
  EngineBench bench({}, 64, endless);
  bench.core.apply(AdmitSequence{bench.sequence(1, {1}, 10)});
  bench.core.step();
  bench.core.step();
  bench.core.apply(AdmitSequence{bench.sequence(2, {2}, 2, 20)});
  const auto steps = bench.run();
  std::vector<std::uint32_t> batch;
  for (const StepDone& step : steps)
    if (step.phase == Phase::kDecode) batch.push_back(step.sequences);
  batch.resize(3);
  EXPECT_EQ(batch, (std::vector<std::uint32_t>{1, 2, 1}));
}

// Field report 13: a bad row ends its own sequence with a cause, the others do not notice.
TEST(EngineCore, ARowOfNansEndsAloneAndPoisonsNobody) {
  FakeModelOptions options;
  options.nan_token = 99;
  EngineBench clean({}, 64, options);
  clean.core.apply(AdmitSequence{clean.sequence(1, {1, 2, 3}, 8)});
  const auto expected = tokens_of(clean.run(), 1);

  EngineBench bench({}, 64, options);
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3}, 8)});
  bench.core.apply(AdmitSequence{bench.sequence(2, {1, 99}, 8, 20)});
  const auto steps = bench.run();
  EXPECT_EQ(tokens_of(steps, 1), expected);
  const auto ends = ends_of(steps, 2);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].why.error().code, ErrorCode::kInternal);
  EXPECT_TRUE(tokens_of(steps, 2).empty());
}

TEST(EngineCore, AStepThatThrowsEndsItsBatchAndTheEngineGoesOn) {
  FakeModelOptions options;
  options.throw_token = 99;
  EngineBench bench({}, 64, options);
  bench.core.apply(AdmitSequence{bench.sequence(1, {99}, 8)});
  const auto ends = ends_of(bench.run(), 1);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_FALSE(ends[0].why.ok());
  bench.core.apply(AdmitSequence{bench.sequence(2, {1}, 3)});
  EXPECT_FALSE(tokens_of(bench.run(), 2).empty());
}

TEST(EngineCore, CancelIsConfirmedOnceAndUnknownIdsAreNot) {
  EngineBench bench;
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2}, 100)});
  bench.core.step();
  bench.core.apply(CancelSequence{1});
  bench.core.apply(CancelSequence{1});
  bench.core.apply(CancelSequence{7});
  const auto steps = bench.run();
  const auto ends = ends_of(steps, 1);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].why.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(ends_of(steps, 7).empty());
}

// Field report 6: a prompt whose client left is not computed to its end.
TEST(EngineCore, ACancelledPromptStopsWithinOneChunk) {
  EngineConfig config;
  config.limits = {4, 8};
  EngineBench bench(config, 64);
  bench.core.apply(AdmitSequence{bench.sequence(1, std::vector<TokenId>(100, 3), 1)});
  bench.core.step();
  bench.core.apply(CancelSequence{1});
  std::uint32_t rows = 0;
  for (const StepDone& step : bench.run()) rows += step.rows;
  EXPECT_LE(rows, 8U);  // the step before the command, and nothing after it
}

TEST(EngineCore, DeadlinesEndSequencesInEveryPhase) {
  EngineConfig config;
  config.limits = {1, 8};
  EngineBench bench(config);
  for (SequenceId id = 1; id <= 2; ++id) {  // one runs, one waits for the only slot
    Sequence s = bench.sequence(id, {1, 2}, 100, static_cast<BlockId>(id * 30 - 30));
    s.deadline = bench.clock.now() + seconds(10);
    bench.core.apply(AdmitSequence{std::move(s)});
  }
  for (int i = 0; i < 4; ++i) bench.core.step();
  bench.clock.advance(seconds(10));
  const auto steps = bench.run();
  for (SequenceId id = 1; id <= 2; ++id) {
    ASSERT_EQ(ends_of(steps, id).size(), 1U);
    EXPECT_EQ(ends_of(steps, id)[0].why.error().code, ErrorCode::kDeadlineExceeded);
  }
}

TEST(EngineCore, LayersAreReportedWithWhatTheyCompute) {
  EngineConfig config;
  config.limits = {4, 8};
  config.report_layers = true;
  EngineBench bench(config);
  Sequence s = bench.sequence(1, std::vector<TokenId>(10, 3), 1);
  s.one_token = true;
  bench.core.apply(AdmitSequence{std::move(s)});
  bench.core.step();
  bench.core.step();
  std::vector<LayerDone> layers;
  for (const EngineEvent& event : bench.events)
    if (const auto* layer = std::get_if<LayerDone>(&event)) layers.push_back(*layer);
  ASSERT_EQ(layers.size(), 6U);
  EXPECT_EQ(layers[2].layer, 2U);
  EXPECT_EQ(layers[2].parts->front().to, 8U);
  EXPECT_FALSE(layers[2].parts->front().last);
  EXPECT_EQ(layers[3].parts->front().from, 8U);
  EXPECT_EQ(layers[3].parts->front().to, 10U);
  EXPECT_TRUE(layers[3].parts->front().last);
  EXPECT_TRUE(bench.core.idle());  // its one token is sampled
}

// KV that another worker wrote reaches the device before the sequence's first step.
TEST(EngineCore, HandedOverBlocksAreImported) {
  EngineBench bench;
  Sequence s = bench.sequence(1, {1, 2, 3, 4, 5, 6}, 1, 10);
  s.cached = 5;
  s.phase = Phase::kDecode;
  bench.core.apply(AdmitSequence{std::move(s)});
  EXPECT_EQ(bench.model.imported(), (std::vector<BlockId>{10, 11}));  // 5 tokens, 4 to a block
  Sequence prompt = bench.sequence(2, {1, 2, 3, 4, 5, 6}, 1, 20);
  prompt.cached = 4;  // a prefix that this worker has computed before
  bench.core.apply(AdmitSequence{std::move(prompt)});
  EXPECT_EQ(bench.model.imported().size(), 2U);
}

TEST(EngineCore, MetricsSplitRoutedFromActivated) {
  EngineConfig config;
  config.policy.kind = PolicyKind::kLynx;
  EngineBench bench(config);
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3}, 4)});
  bench.run();
  const std::string text = bench.registry.serialize();
  for (const char* name :
       {"lynx_unique_experts_count{stage=\"routed\"}", "lynx_unique_experts_count{stage=\"activated\"}",
        "lynx_expert_bytes_total{kind=\"read\"}", "lynx_expert_bytes_total{kind=\"avoided\"}",
        "lynx_assignments_total", "lynx_remapped_assignments_total", "lynx_retained_router_mass",
        "lynx_step_seconds", "lynx_batch_size", "lynx_layer_experts_total{layer=\"0\",stage=\"routed\"}",
        "lynx_layer_experts_total{layer=\"1\",stage=\"activated\"}", "lynx_step_rows_sum{phase=\"decode\"} 3",
        "lynx_step_computed_rows_sum{phase=\"decode\"} 6"})
    EXPECT_NE(text.find(name), std::string::npos) << name << "\n" << text;
}

}  // namespace
}  // namespace lynx::testing
