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
  EXPECT_NE(comparison_text(*once).find("experts: not compared; takes --metrics"), std::string::npos);
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

TEST(BlockBootstrap, WhatHasNoFigureIsLeftOut) {
  const auto without = [](std::size_t below) {  // a figure, unless the first pair drawn is one of these
    return bootstrap_interval(
        50, [=](std::span<const std::size_t> drawn) { return drawn[0] < below && drawn[1] != 1 ? NAN : 5.0; },
        {.seed = 1});
  };
  EXPECT_EQ(to_string(without(0)), "5.000 [5.000, 5.000]");
  // All pairs in order have a figure; one resample in 50 has none, or one in 5.
  EXPECT_EQ(to_string(without(2)), "5.000 [5.000, 5.000]") << "not pulled down to 0";
  EXPECT_EQ(to_string(without(11)), "5.000 [no interval]");
  const auto never = bootstrap_interval(50, [](std::span<const std::size_t>) { return NAN; }, {});
  EXPECT_EQ(to_string(never), "none");
}

const PairedExperts& experts(const std::vector<PairedExperts>& all, const std::string& name) {
  return *std::ranges::find(all, name, &PairedExperts::name);
}

TEST(ComparedExperts, FindsASavingThatIsThere) {
  const auto a = testing::sample_fleet(60, 44, 1), b = testing::sample_fleet(60, 40, 2);
  const auto compared = compare_experts(a, b, 0, {.seed = 3});
  const PairedExperts& routed = experts(compared, "unique experts routed");
  EXPECT_NEAR(routed.ratio.value, 1.1, 0.02);
  EXPECT_DOUBLE_EQ(routed.ratio.value, routed.a / routed.b);
  EXPECT_LT(routed.ratio.low, 1.1);
  EXPECT_GT(routed.ratio.high, 1.1);
  EXPECT_GT(routed.ratio.low, 1.05) << "pairing takes the swing of the load out of it";
  EXPECT_DOUBLE_EQ(experts(compared, "unique experts activated").a, routed.a / 2);
  EXPECT_DOUBLE_EQ(experts(compared, "experts read per token").a, routed.a / 2 / 8);
  EXPECT_EQ(experts(compared, "sequences").ratio.high, 1);
}

// B's machine was slower for half of the run: its batches were twice as large, and with them its experts.
TEST(ComparedExperts, AtEqualBatchTheBatchIsTakenOut) {
  FleetCurves a = testing::sample_fleet(80, 30, 1), b = testing::sample_fleet(80, 30, 2);
  for (std::size_t i = 0; i < 80; ++i) {
    const double swing = 4 + 3 * unit_interval(mix_bits(9, i / 4));
    a.batch[i] = swing;
    b.batch[i] = i < 40 ? swing : 2 * swing;
    const auto noise = [&](std::uint64_t side) { return 0.97 + 0.06 * unit_interval(mix_bits(side, i)); };
    a.routed[i] = 1.1 * 9 * std::pow(a.batch[i], 0.6) * noise(20);
    b.routed[i] = 9 * std::pow(b.batch[i], 0.6) * noise(21);
  }
  const auto compared = compare_experts(a, b, 0, {.seed = 1});
  EXPECT_LT(experts(compared, "unique experts routed").ratio.high, 1) << "misled by the batches";
  const PairedExperts& equal = experts(compared, "unique experts routed, at equal batch");
  EXPECT_NEAR(equal.ratio.value, 1.1, 0.015);
  EXPECT_LT(equal.ratio.low, 1.1);
  EXPECT_GT(equal.ratio.high, 1.1);
  EXPECT_LT(equal.ratio.high - equal.ratio.low, 0.05);
  EXPECT_NEAR(equal.a / equal.b, equal.ratio.value, 1e-9);
}

// The load swings by seconds, so that seconds paired wrongly would show.
TEST(ComparedExperts, AMissedSampleShiftsNoLaterPair) {
  const FleetCurves a = testing::sample_fleet(60, 44, 1);
  FleetCurves b = a;
  b.at_s[30] += 0.2;  // late, as a scrape may be
  const auto whole = compare_experts(a, b, 0, {.seed = 3});
  for (const std::size_t missed : {20u, 5u}) {
    b.at_s.erase(b.at_s.begin() + missed);
    for (const auto& curve : kFleetCurves) {
      auto& points = b.*curve.points;
      points.erase(points.begin() +
                   missed);  // what is left is the next second's: near enough to two seconds'
    }
  }
  const auto compared = compare_experts(a, b, 0, {.seed = 3});
  ASSERT_EQ(compared.size(), whole.size());
  for (const PairedExperts& one : compared) {
    EXPECT_NEAR(one.ratio.low, 1, 1e-9) << one.name << ": each second is its own";
    EXPECT_NEAR(one.ratio.high, 1, 1e-9) << one.name;
  }
  for (std::size_t i = 0; i < b.at_s.size(); ++i) b.at_s[i] += 1000;
  EXPECT_TRUE(compare_experts(a, b, 0).empty()) << "no second in common";
}

TEST(ComparedExperts, ASideThatMadeNoStepHasNoRatio) {
  const FleetCurves a = testing::sample_fleet(60, 44, 1);
  FleetCurves idle = a;
  std::ranges::fill(idle.layer_steps, 0);
  for (const auto& compared : {compare_experts(a, idle, 0), compare_experts(idle, a, 0)})
    for (const PairedExperts& one : compared) EXPECT_EQ(to_string(one.ratio), "none") << one.name;
  idle.layer_steps[20] = 10;  // of one second alone, which every third resample lacks
  for (const PairedExperts& one : compare_experts(a, idle, 0))
    EXPECT_FALSE(std::isfinite(one.ratio.low)) << one.name;
}

// A mean of the seconds' means would count a second of one step as much as one of a thousand.
TEST(ComparedExperts, CountsEveryStepOnceAndNoneOfTheWarmUp) {
  FleetCurves fleet;
  for (int i = 0; i < 14; ++i) {
    fleet.at_s.push_back(i + 1);
    const bool idle = i == 7, warm = i < 3;
    fleet.layer_steps.push_back(idle ? 0 : i == 8 ? 1000 : 10);
    fleet.routed.push_back(idle ? std::nan("") : warm ? 9999 : i == 8 ? 20 : 40);
    fleet.batch.push_back(idle ? std::nan("") : 4);
    fleet.kv_bytes_per_s.push_back(0);
    fleet.kv_ms.push_back(0);
  }
  fleet.activated = fleet.routed;
  const auto compared = compare_experts(fleet, fleet, 3);
  ASSERT_FALSE(compared.empty());
  EXPECT_NEAR(compared[0].a, (9.0 * 10 * 40 + 1000 * 20) / 1090, 1e-9);
  EXPECT_EQ(compared[0].ratio.low, 1) << "the same on both sides";
  EXPECT_NEAR(compared[4].ratio.value, 1, 1e-9) << compared[4].name << ": one batch has no slope";
  EXPECT_TRUE(compare_experts(fleet, fleet, 5).empty()) << "too short a time";
  EXPECT_TRUE(compare_experts({}, {}, 0).empty()) << "no worker was sampled";
}

}  // namespace
}  // namespace lynx
