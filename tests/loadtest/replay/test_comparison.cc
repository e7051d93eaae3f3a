#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "loadtest/replay/comparison.h"
#include "tests/loadtest/replay/sample_run.h"

namespace lynx {
namespace {

using testing::answered;
using testing::sample_run;

const PairedLatency& latency(const Comparison& c, const std::string& name) {
  return *std::ranges::find(c.latencies, name, &PairedLatency::name);
}

TEST(Comparison, FindsASpeedUpThatIsThere) {
  const auto a = sample_run("A", 200, 1.25, 7), b = sample_run("B", 200, 1, 8);
  const auto c = compare(a.outcomes, b.outcomes, testing::one_class(), {.seed = 1});
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(c->pairs, 200u);
  for (const char* name : {"TPOT", "ITL"}) {
    const PairedLatency& l = latency(*c, name);
    EXPECT_NEAR(l.mean_speedup.value, 1.25, 0.02) << name;
    EXPECT_LT(l.mean_speedup.low, 1.25);
    EXPECT_GT(l.mean_speedup.high, 1.25);
    EXPECT_GT(l.mean_speedup.low, 1.2) << "pairing takes the swing of the load out of it";
  }
  const PairedLatency& ttft = latency(*c, "TTFT");
  EXPECT_LT(ttft.mean_speedup.low, 1);
  EXPECT_GT(ttft.mean_speedup.high, 1) << "no difference there: 1 is inside";
}

// The interval is a claim: over repeated pairs of runs with a known speed-up, 95 of 100 should hold it.
TEST(Comparison, IntervalsHoldTheTruthAboutAsOftenAsTheySay) {
  int held = 0;
  constexpr int kRuns = 60;
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    const auto a = sample_run("A", 60, 1.1, 1000 + 2 * i), b = sample_run("B", 60, 1, 1001 + 2 * i);
    const auto c = compare(a.outcomes, b.outcomes, testing::one_class(), {.seed = i, .resamples = 200});
    const Interval& tpot = latency(*c, "TPOT").mean_speedup;
    held += tpot.low <= 1.1 && 1.1 <= tpot.high ? 1 : 0;
  }
  EXPECT_GE(held, kRuns * 80 / 100);
  EXPECT_LT(held, kRuns) << "an interval that never misses is too wide to say anything";
}

TEST(Comparison, TheSameSeedGivesTheSameFigures) {
  const auto a = sample_run("A", 80, 1.1, 1), b = sample_run("B", 80, 1, 2);
  const auto once = compare(a.outcomes, b.outcomes, testing::one_class(), {.seed = 5});
  const auto again = compare(a.outcomes, b.outcomes, testing::one_class(), {.seed = 5});
  EXPECT_EQ(comparison_text(*once), comparison_text(*again));
  EXPECT_NE(comparison_text(*once).find("TPOT       p99"), std::string::npos) << comparison_text(*once);
}

TEST(Comparison, FailuresLowerAttainmentAndLeaveNoPair) {
  const std::vector<Outcome> a{answered(0, 100, {10}), answered(50, 100, {10})};
  std::vector<Outcome> b = a;
  b[1] = testing::refused(50, "http_429", "full");
  const auto c = compare(a, b, testing::one_class());
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->attainment_a, 1);
  EXPECT_EQ(c->attainment_b, 0.5);
  EXPECT_EQ(c->attainment_gain.value, -0.5);
  EXPECT_EQ(latency(*c, "TTFT").pairs, 1u);
}

TEST(Comparison, RunsOfAnotherWorkloadAreRefused) {
  const auto a = sample_run("A", 20, 1, 1), longer = sample_run("B", 21, 1, 1);
  const auto slo = testing::one_class();
  EXPECT_NE(compare(a.outcomes, longer.outcomes, slo).error().message.find("20 requests against 21"),
            std::string::npos);
  auto moved = a;
  moved.outcomes[3].sent_at += std::chrono::milliseconds(5);
  EXPECT_FALSE(compare(a.outcomes, moved.outcomes, slo).ok()) << "planned for another time";
  moved.outcomes[3].lateness += std::chrono::milliseconds(5);
  EXPECT_TRUE(compare(a.outcomes, moved.outcomes, slo).ok()) << "sent late, but planned alike";
  EXPECT_FALSE(compare({}, {}, slo).ok());
  auto warm = a;
  for (Outcome& o : warm.outcomes) o.warm_up = true;
  EXPECT_FALSE(compare(warm.outcomes, warm.outcomes, slo).ok());
}

}  // namespace
}  // namespace lynx
