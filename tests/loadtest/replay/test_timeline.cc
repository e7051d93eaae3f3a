#include <gtest/gtest.h>

#include "tests/loadtest/replay/sample_run.h"

namespace lynx {
namespace {

using testing::answered;
using testing::ms;
using testing::refused;

TEST(Timeline, EverythingFallsIntoItsBin) {
  auto slo = testing::one_class();
  std::vector<Outcome> outcomes{
      answered(100, 400, {600, 10}),  // TTFT met, TPOT not; tokens at .5, 1.1, 1.11 s
      answered(1200, 100, {20, 20}),  // all in second 1; met
      refused(1900, "http_429", "full")};
  outcomes[1].lateness = ms(300);  // was due in second 0
  const Timeline t = make_timeline(outcomes, slo, 3, 3);
  ASSERT_EQ(t.bin_s, 1);
  ASSERT_EQ(t.bins.size(), 3u);
  const auto& [first, second, third] = std::tie(t.bins[0], t.bins[1], t.bins[2]);
  EXPECT_EQ(first.offered, 2u) << "by the time it was due";
  EXPECT_EQ(first.sent, 1u);
  EXPECT_EQ(first.met, 0u);
  EXPECT_EQ(first.tokens, 1u);
  EXPECT_EQ(first.in_flight, 1u);
  EXPECT_DOUBLE_EQ(first.ttft_ms.p50, 400);
  EXPECT_EQ(first.itl_ms.count, 0u);
  EXPECT_EQ(second.offered, 1u);
  EXPECT_EQ(second.sent, 2u);
  EXPECT_EQ(second.met, 1u);
  EXPECT_EQ(second.completed, 2u);
  EXPECT_EQ(second.failed, 1u);
  EXPECT_EQ(second.tokens, 5u);
  EXPECT_EQ(second.in_flight, 1u) << "the first ends before the second starts";
  EXPECT_EQ(second.itl_ms.count, 4u);
  EXPECT_DOUBLE_EQ(second.tpot_ms.p50, 20);
  EXPECT_EQ(third.in_flight, 0u);
  EXPECT_EQ(third.tokens, 0u);
}

TEST(Timeline, ARequestOverSeveralBinsIsInFlightInEach) {
  const Timeline t = make_timeline({answered(0, 4500, {})}, testing::one_class(), 5, 5);
  ASSERT_EQ(t.bins.size(), 5u);
  for (const TimeBin& bin : t.bins) EXPECT_EQ(bin.in_flight, 1u) << bin.at_s;
}

TEST(Timeline, BinsAreRoundAndCoverTheRun) {
  EXPECT_EQ(make_timeline({}, testing::one_class(), 60).bin_s, 1);
  EXPECT_EQ(make_timeline({}, testing::one_class(), 100).bin_s, 2);
  EXPECT_EQ(make_timeline({}, testing::one_class(), 3600).bins.size(), 36u);
  EXPECT_EQ(make_timeline({}, testing::one_class(), 0).bins.size(), 1u) << "no run at all";
  EXPECT_GE(make_timeline({}, testing::one_class(), 1, 1000).bin_s, 0.2);
  // An answer after the end that was told still has a place.
  EXPECT_EQ(make_timeline({answered(0, 2500, {})}, testing::one_class(), 1, 3).bins.size(), 3u);
}

}  // namespace
}  // namespace lynx
