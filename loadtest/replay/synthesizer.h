// A made-up bursty trace: gamma or Weibull gaps with a given coefficient of variation, run through an ON/OFF
// rate, and log-normal lengths. The defaults have the shape of the Azure code trace of 2023 (bursts of
// seconds between quiet stretches, log-normal prompts longer than the answers), scaled to two CPU cores and a
// context of 2048: about 300 requests in a minute, whose bursts fill the decode batch and whose pauses let it
// drain. Answers are longer than there (64 tokens, not 13): decoding is what we look at.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>

#include "common/core/result.h"
#include "loadtest/replay/trace.h"

namespace lynx {

enum class GapShape { kGamma, kWeibull };
Result<GapShape> parse_gap_shape(const std::string& text);

struct LogNormal {
  double median = 1;
  double sigma = 0;        // of the logarithm; 0 = always the median
  std::uint32_t most = 1;  // longer draws are cut
};

struct SyntheticOptions {
  double duration_s = 60;
  double rate = 5;  // requests per second over the whole run, expected
  GapShape gaps = GapShape::kGamma;
  double gap_cv = 1.5;  // standard deviation / mean of the gaps; 1 = Poisson
  // The rate alternates: `burst` times the mean while ON, the rest while OFF. 1 = steady. At most 1 / (ON's
  // share of time).
  double burst = 3.5;
  double on_s = 3, off_s = 9;  // mean lengths of the phases, exponential
  LogNormal input{.median = 128, .sigma = 0.8, .most = 1536};
  LogNormal output{.median = 64, .sigma = 0.8, .most = 256};
  std::uint64_t seed = 0;
};

// Error, the option first: it is out of its range, or no request comes of it.
Result<Trace> synthesize(const SyntheticOptions& options);

// Gaps of mean 1 with the given CV. The Weibull shape has no closed form: it is found by bisection.
class GapSource {
 public:
  GapSource(GapShape shape, double cv);
  double next(std::mt19937_64& rng);

 private:
  GapShape shape_;
  double k_ = 1;      // shape of either distribution
  double scale_ = 1;  // makes the mean 1
};

}  // namespace lynx
