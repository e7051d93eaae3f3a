// The engine looks at the exact model now and then, beside its steps: what that may cost them.
#include <gtest/gtest.h>

#include "tests/services/engine/engine_bench.h"

namespace lynx::testing {
namespace {

TEST(DriftLook, IsNoPartOfItsStep) {
  constexpr std::chrono::milliseconds kForward{10};
  ManualClock* clock = nullptr;
  FakeModelOptions options;
  options.eos = {};
  options.on_launch = [&] { clock->advance(kForward); };
  EngineConfig config;
  config.policy.kind = PolicyKind::kLynx;
  config.drift.sample_every = 2;
  EngineBench bench(config, 64, options);
  clock = &bench.clock;
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3}, 9)});
  bench.core.apply(AdmitSequence{bench.sequence(2, {4, 5, 6}, 9, 30)});
  for (const StepDone& step : bench.run()) EXPECT_EQ(step.finished - step.started, kForward) << step.step;
  EXPECT_NE(bench.registry.serialize().find("lynx_drift_kl_count 4\n"), std::string::npos);
}

// A device draws by sums of its own: were the token of the row looked at drawn on the host, it could be
// another.
TEST(DriftLook, LeavesTheDrawWhereItWas) {
  std::vector<std::vector<TokenId>> told[2];
  for (const bool looks : {false, true}) {
    FakeModelOptions options;
    options.eos = {};
    options.samples = true;
    EngineConfig config;
    config.policy.kind = PolicyKind::kLynx;
    config.drift = {.sample_every = looks ? 1U : 0U, .kl = 1e6F};
    EngineBench bench(config, 64, options);
    Sequence seeded = bench.sequence(1, {1, 2, 3}, 20);
    seeded.sampling.temperature = 1;
    Sequence penalized = bench.sequence(2, {4, 5, 6}, 20, 20);  // the host's
    penalized.sampling.presence_penalty = 1;
    bench.core.apply(AdmitSequence{std::move(seeded)});
    bench.core.apply(AdmitSequence{std::move(penalized)});
    bench.core.apply(AdmitSequence{bench.sequence(3, {7, 8}, 20, 40)});
    const auto steps = bench.run();
    for (const SequenceId id : {1, 2, 3}) told[looks ? 1 : 0].push_back(tokens_of(steps, id));
    const std::string count = looks ? "19" : "0";
    EXPECT_NE(bench.registry.serialize().find("lynx_drift_kl_count " + count + "\n"), std::string::npos);
  }
  EXPECT_EQ(told[0][0].size(), 20U);
  EXPECT_EQ(told[1], told[0]);
}

TEST(DriftLook, OneThatFailsCostsItsSampleAndNoStream) {
  for (const bool overlaps : {false, true}) {
    FakeModelOptions options;
    options.eos = {};
    options.overlaps = overlaps;
    options.looks_throw = true;
    EngineConfig config;
    config.policy.kind = PolicyKind::kLynx;
    config.drift.sample_every = 2;
    EngineBench bench(config, 64, options);
    bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3}, 9)});
    bench.core.apply(AdmitSequence{bench.sequence(2, {4, 5, 6}, 9, 30)});
    const auto steps = bench.run();
    for (const SequenceId id : {1, 2}) {
      EXPECT_EQ(tokens_of(steps, id).size(), 9U);
      ASSERT_EQ(ends_of(steps, id).size(), 1U);
      EXPECT_TRUE(ends_of(steps, id)[0].why.ok());
    }
    EXPECT_NE(bench.registry.serialize().find("lynx_drift_kl_count 0\n"), std::string::npos);
  }
}

}  // namespace
}  // namespace lynx::testing
