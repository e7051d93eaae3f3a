#include <gtest/gtest.h>

#include "tests/services/engine/engine_bench.h"

namespace lynx::testing {
namespace {

// A model that overlaps computes while events go out: the next step is launched before they are emitted.
class OverlappingEngine : public ::testing::Test {
 protected:
  static FakeModelOptions options() {
    FakeModelOptions out;
    out.overlaps = true;
    out.eos = {};
    return out;
  }
};

TEST_F(OverlappingEngine, GeneratesWhatAPlainOneDoes) {
  FakeModelOptions plain = options();
  plain.overlaps = false;
  std::vector<TokenId> tokens[2];
  for (const FakeModelOptions& o : {plain, options()}) {
    EngineConfig config;
    config.limits = {2, 5};
    EngineBench bench(config, 64, o);
    bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3, 4, 5, 6, 7}, 9)});
    bench.core.apply(AdmitSequence{bench.sequence(2, {9, 8}, 4, 20)});
    bench.core.apply(AdmitSequence{bench.sequence(3, {5}, 6, 40)});
    const auto steps = bench.run();
    for (SequenceId id = 1; id <= 3; ++id) {
      EXPECT_EQ(ends_of(steps, id).size(), 1U);
      const auto some = tokens_of(steps, id);
      auto& all = tokens[o.overlaps ? 1 : 0];
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  EXPECT_EQ(tokens[0].size(), 19U);
  EXPECT_EQ(tokens[0], tokens[1]);
}

// Field report 15.
TEST_F(OverlappingEngine, LaunchesTheNextStepBeforeItEmits) {
  FakeModelOptions o = options();
  std::size_t launches = 0;
  o.on_launch = [&] { ++launches; };
  EngineBench bench({}, 64, o);
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2}, 3)});
  bench.core.step();
  EXPECT_EQ(launches, 2U);
  ASSERT_EQ(bench.events.size(), 1U);
  EXPECT_EQ(std::get<StepDone>(bench.events[0]).tokens.size(), 1U);
  bench.core.step();
  bench.core.step();
  EXPECT_EQ(launches, 3U);  // the third token is the last
  EXPECT_TRUE(bench.core.idle());
}

TEST_F(OverlappingEngine, ACancelDuringAStepWaitsForItAndDropsItsToken) {
  EngineBench bench({}, 64, options());
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2}, 100)});
  bench.core.apply(AdmitSequence{bench.sequence(2, {3, 4}, 3, 30)});
  bench.core.step();  // one step has landed, the second is under way with both
  bench.events.clear();
  bench.core.apply(CancelSequence{1});
  bench.core.apply(CancelSequence{1});
  EXPECT_TRUE(bench.events.empty());
  const auto steps = bench.run();
  EXPECT_TRUE(tokens_of(steps, 1).empty());
  ASSERT_EQ(ends_of(steps, 1).size(), 1U);
  EXPECT_EQ(ends_of(steps, 1)[0].why.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(tokens_of(steps, 2).size(), 2U);
}

TEST_F(OverlappingEngine, AFailedStepEndsItsBatchAndALostDeviceTheEngine) {
  FakeModelOptions o = options();
  o.throw_token = 99;
  o.lost_token = 98;
  EngineBench bench({}, 64, o);
  bench.core.apply(AdmitSequence{bench.sequence(1, {99}, 8)});
  EXPECT_EQ(ends_of(bench.run(), 1).size(), 1U);
  bench.core.apply(AdmitSequence{bench.sequence(2, {98}, 8)});
  EXPECT_THROW(bench.core.step(), DeviceLost);
  ASSERT_EQ(bench.events.size(), 1U);
  EXPECT_EQ(std::get<StepDone>(bench.events[0]).ended.size(), 1U);
}

TEST_F(OverlappingEngine, MayBeLeftInTheMiddleOfAStep) {
  EngineConfig config;
  config.report_layers = true;
  config.limits = {4, 2};
  EngineBench bench(config, 64, options());
  bench.core.apply(AdmitSequence{bench.sequence(1, {1, 2, 3, 4, 5}, 100)});
  bench.core.step();
}

}  // namespace
}  // namespace lynx::testing
