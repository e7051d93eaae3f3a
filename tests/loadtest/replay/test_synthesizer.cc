#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "loadtest/replay/statistics.h"
#include "loadtest/replay/synthesizer.h"

namespace lynx {
namespace {

std::vector<double> gaps_of(const Trace& trace) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < trace.requests.size(); ++i)
    gaps.push_back(std::chrono::duration<double>(trace.requests[i].at - trace.requests[i - 1].at).count());
  return gaps;
}

// Variance over mean of the counts in windows of one second.
double dispersion(const Trace& trace, double duration) {
  std::vector<double> counts(static_cast<std::size_t>(duration));
  for (const auto& request : trace.requests)
    ++counts[std::min(counts.size() - 1, static_cast<std::size_t>(request.at.count() / 1'000'000'000))];
  const auto s = summarize(counts);
  return s.std * s.std / s.mean;
}

TEST(Synthesizer, GapsHaveTheAskedRateAndVariation) {
  for (const GapShape shape : {GapShape::kGamma, GapShape::kWeibull})
    for (const double cv : {0.3, 1.0, 2.0, 4.0}) {
      const auto trace =
          synthesize({.duration_s = 10'000, .rate = 10, .gaps = shape, .gap_cv = cv, .burst = 1, .seed = 3});
      ASSERT_TRUE(trace.ok());
      const auto s = summarize(gaps_of(*trace));
      EXPECT_NEAR(s.mean, 0.1, 0.004) << cv;
      EXPECT_NEAR(s.std / s.mean, cv, 0.1 * cv) << cv;
    }
}

TEST(Synthesizer, BurstsKeepTheRateAndBunchTheRequests) {
  const auto steady = *synthesize({.duration_s = 5000, .rate = 4, .gap_cv = 1, .burst = 1, .seed = 1});
  const auto bursty = *synthesize({.duration_s = 5000, .rate = 4, .gap_cv = 1, .burst = 3, .seed = 1});
  EXPECT_NEAR(static_cast<double>(bursty.requests.size()), 20'000, 1500);
  EXPECT_NEAR(dispersion(steady, 5000), 1, 0.1);
  EXPECT_GT(dispersion(bursty, 5000), 3);
  // With all requests in the ON quarter, most seconds are empty.
  const auto extreme = *synthesize({.duration_s = 5000, .rate = 4, .gap_cv = 1, .burst = 4, .seed = 1});
  EXPECT_NEAR(static_cast<double>(extreme.requests.size()), 20'000, 2000);
  EXPECT_GT(dispersion(extreme, 5000), dispersion(bursty, 5000));
}

TEST(Synthesizer, LengthsAreLogNormalAndCut) {
  const auto trace = *synthesize({.duration_s = 5000, .seed = 2});
  std::vector<double> input, output;
  for (const auto& r : trace.requests) {
    input.push_back(r.input_tokens);
    output.push_back(r.output_tokens);
  }
  const auto in = summarize(input), out = summarize(output);
  EXPECT_NEAR(in.p50, 128, 6);
  EXPECT_NEAR(std::log(in.p90 / in.p50), 0.8 * 1.2816, 0.08) << "sigma, seen at the 90th percentile";
  EXPECT_EQ(in.max, 1536);
  EXPECT_NEAR(out.p50, 64, 3);
  EXPECT_EQ(out.max, 256);
}

TEST(Synthesizer, TheDefaultIsAMinuteOfAFewHundredRequests) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto trace = *synthesize({.seed = seed});
    EXPECT_GT(trace.requests.size(), 60u);
    EXPECT_LT(trace.requests.size(), 600u);
    EXPECT_LT(std::chrono::duration<double>(trace.requests.back().at).count(), 60);
  }
}

TEST(Synthesizer, ASeedIsATrace) {
  const auto a = *synthesize({.seed = 5}), b = *synthesize({.seed = 5}), c = *synthesize({.seed = 6});
  ASSERT_EQ(a.requests.size(), b.requests.size());
  for (std::size_t i = 0; i < a.requests.size(); ++i) EXPECT_EQ(a.requests[i].at, b.requests[i].at);
  EXPECT_NE(a.requests[0].at, c.requests[0].at);
  auto longer = SyntheticOptions{.seed = 5};
  longer.input.median = 400;
  EXPECT_EQ(synthesize(longer)->requests[0].at, a.requests[0].at) << "other lengths, same arrivals";
}

TEST(Synthesizer, OptionsOutOfRangeAreNamed) {
  const auto error = [](SyntheticOptions o) {
    return synthesize(o).ok() ? "" : synthesize(o).error().message;
  };
  EXPECT_NE(error({.duration_s = 0}).find("duration"), std::string::npos);
  EXPECT_NE(error({.rate = NAN}).find("rate"), std::string::npos);
  EXPECT_NE(error({.duration_s = 1e6, .rate = 1e5}).find("rate, duration"), std::string::npos);
  EXPECT_NE(error({.gap_cv = 0}).find("gap-cv"), std::string::npos);
  EXPECT_NE(error({.duration_s = 0.1, .rate = 1e-3}).find("duration: no request"), std::string::npos);
  EXPECT_NE(error({.burst = 4.1}).find("burst"), std::string::npos);
  EXPECT_NE(error({.input = {.median = 0}}).find("input-median"), std::string::npos);
  EXPECT_NE(error({.output = {.sigma = -1}}).find("output-sigma"), std::string::npos);
}

}  // namespace
}  // namespace lynx
