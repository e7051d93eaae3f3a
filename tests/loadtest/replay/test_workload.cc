#include <gtest/gtest.h>

#include <algorithm>

#include "loadtest/replay/workload.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

const std::vector<SloTarget> kOneClass{{.name = "only", .share = 1}};

Trace trace_of(std::vector<TraceRequest> requests, std::uint32_t block_tokens = 0) {
  Trace trace;
  trace.name = "t";
  trace.block_tokens = block_tokens;
  trace.requests = std::move(requests);
  return trace;
}

TraceRequest at(std::chrono::nanoseconds when, std::uint32_t input = 10, std::uint32_t output = 5) {
  return {.at = when, .input_tokens = input, .output_tokens = output, .hash_ids = {}};
}

TEST(Workload, ASliceStartsAtItsStart) {
  const auto trace = trace_of({at(0s), at(10s), at(12s), at(19999ms), at(20s)});
  const auto w = *plan_workload(trace, {.slice = Slice{10s, 10s}}, kOneClass);
  ASSERT_EQ(w.requests.size(), 3u) << "the end is not in it";
  EXPECT_EQ(w.requests[0].at, 0s);
  EXPECT_EQ(w.requests[1].at, 2s);
  EXPECT_EQ(plan_workload(trace, {.slice = Slice{100s, 1s}}, kOneClass).error().message,
            "slice: no request of t falls into it");
  EXPECT_EQ(plan_workload(trace, {.max_requests = 2}, kOneClass)->requests.size(), 2u);
}

TEST(Workload, TwiceAsFastIsHalfTheTime) {
  const auto w = *plan_workload(trace_of({at(0s), at(3s)}), {.speedup = 2}, kOneClass);
  EXPECT_EQ(w.requests[1].at, 1500ms);
  EXPECT_FALSE(plan_workload(trace_of({at(0s)}), {.speedup = 0}, kOneClass).ok());
}

TEST(Workload, SpreadingStaysWithinTheTickAndIsSeeded) {
  std::vector<TraceRequest> requests;
  for (int tick = 0; tick < 3; ++tick)
    for (int i = 0; i < 50; ++i) requests.push_back(at(tick * 3s));
  const auto spread = *plan_workload(trace_of(requests), {.spread_within_tick = true, .seed = 1}, kOneClass);
  for (std::size_t i = 0; i < spread.requests.size(); ++i) {
    EXPECT_GE(spread.requests[i].at, 3s * static_cast<int>(i / 50));
    EXPECT_LT(spread.requests[i].at, 3s * static_cast<int>(i / 50 + 1)) << "the last tick too";
  }
  EXPECT_GT(spread.requests[49].at - spread.requests[0].at, 2s);
  EXPECT_TRUE(std::ranges::is_sorted(spread.requests, {}, &PlannedRequest::at));
  const auto again = *plan_workload(trace_of(requests), {.spread_within_tick = true, .seed = 1}, kOneClass);
  const auto other = *plan_workload(trace_of(requests), {.spread_within_tick = true, .seed = 2}, kOneClass);
  EXPECT_EQ(spread.requests[7].at, again.requests[7].at);
  EXPECT_NE(spread.requests[7].at, other.requests[7].at);
  EXPECT_EQ(plan_workload(trace_of(requests), {}, kOneClass)->requests[49].at, 0s) << "off by default";
}

TEST(Workload, ScalingFitsTheLongestAndKeepsProportions) {
  const auto trace = trace_of({at(0s, 7000, 1000), at(1s, 700, 100), at(2s, 1, 1)}, 512);
  const auto w = *plan_workload(trace, {.context = 2000}, kOneClass);
  EXPECT_DOUBLE_EQ(w.length_factor, 0.25);
  EXPECT_EQ(w.requests[0].input_tokens, 1750u);
  EXPECT_EQ(w.requests[0].output_tokens, 250u);
  EXPECT_EQ(w.requests[1].input_tokens, 175u);
  EXPECT_EQ(w.requests[2].input_tokens, 1u) << "never nothing";
  EXPECT_EQ(w.block_tokens, 128u) << "shared prefixes shrink alike";
  EXPECT_DOUBLE_EQ(plan_workload(trace, {.context = 100'000}, kOneClass)->length_factor, 1) << "never grows";
}

TEST(Workload, ClippingCutsOnlyWhatIsTooLong) {
  const auto trace = trace_of({at(0s, 7000, 1000), at(1s, 700, 100)});
  const auto w = *plan_workload(
      trace, {.lengths = LengthMode::kClip, .context = 2000, .max_output_tokens = 300}, kOneClass);
  EXPECT_EQ(w.requests[0].output_tokens, 300u);
  EXPECT_EQ(w.requests[0].input_tokens, 1700u);
  EXPECT_EQ(w.requests[1].input_tokens, 700u);
  const auto keep = *plan_workload(trace, {.lengths = LengthMode::kKeep, .context = 2000}, kOneClass);
  EXPECT_EQ(keep.requests[0].input_tokens, 7000u);
}

TEST(Workload, ScalingInputsAloneKeepsAnswers) {
  const auto trace = trace_of({at(0s, 7000, 1000), at(1s, 700, 100)}, 512);
  const auto w = *plan_workload(
      trace, {.lengths = LengthMode::kScaleInputs, .context = 2000, .max_output_tokens = 250}, kOneClass);
  EXPECT_DOUBLE_EQ(w.length_factor, 0.25);
  EXPECT_EQ(w.requests[0].input_tokens, 1750u);
  EXPECT_EQ(w.requests[0].output_tokens, 250u);
  EXPECT_EQ(w.requests[1].input_tokens, 175u);
  EXPECT_EQ(w.requests[1].output_tokens, 100u);
  EXPECT_EQ(w.block_tokens, 128u);
  const auto unset = *plan_workload(trace, {.lengths = LengthMode::kScaleInputs, .context = 2000}, kOneClass);
  EXPECT_EQ(unset.requests[0].output_tokens, 500u) << "a quarter of the context";
}

TEST(Workload, ClassesFollowTheirShares) {
  std::vector<TraceRequest> requests(20'000, at(0s));
  const std::vector<SloTarget> slos{
      {.name = "a", .share = 0.7}, {.name = "b", .share = 0.2}, {.name = "c", .share = 0.1}};
  const auto w = *plan_workload(trace_of(requests), {.seed = 4}, slos);
  std::vector<int> counts(3);
  for (const auto& r : w.requests) ++counts[r.slo];
  EXPECT_NEAR(counts[0], 14'000, 300);
  EXPECT_NEAR(counts[1], 4'000, 250);
  EXPECT_NEAR(counts[2], 2'000, 200);
}

TEST(Workload, SlicesAreWrittenInSecondsOrWithUnits) {
  EXPECT_EQ(parse_slice("569,60")->start, 569s);
  EXPECT_EQ(parse_slice("10m,90s")->start, 10min);
  EXPECT_EQ(parse_slice("10m,1500ms")->duration, 1500ms);
  EXPECT_EQ(parse_slice("0.5,1")->start, 500ms);
  for (const char* bad : {"", "10", "10,", ",5", "a,b", "-1,5", "1,2,3"})
    EXPECT_FALSE(parse_slice(bad).ok()) << bad;
}

TEST(Workload, LengthModesReadBack) {
  for (const LengthMode mode :
       {LengthMode::kKeep, LengthMode::kClip, LengthMode::kScale, LengthMode::kScaleInputs})
    EXPECT_EQ(*parse_length_mode(to_string(mode)), mode);
  EXPECT_FALSE(parse_length_mode("stretch").ok());
}

}  // namespace
}  // namespace lynx
