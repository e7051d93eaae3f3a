// A run over time: the same outcomes as the report, cut into bins of equal width. Pure.
//
// Arrivals, TTFT, TPOT and attainment belong to the bin in which a request was sent; completions to the bin
// in which it ended; ITL and tokens to the bin in which the token came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loadtest/replay/outcome.h"
#include "loadtest/replay/slo.h"

namespace lynx {

struct Quantiles {
  std::size_t count = 0;  // 0: the others say nothing
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

struct TimeBin {
  double at_s = 0;  // its begin, since the start of the run
  std::size_t offered = 0, sent = 0, completed = 0, failed = 0;
  std::size_t in_flight = 0;  // the most at any moment of the bin
  std::size_t met = 0;        // of `sent`: inside every objective of their class
  std::uint64_t tokens = 0;   // pieces of text that came
  Quantiles ttft_ms{}, tpot_ms{}, itl_ms{};
};

struct Timeline {
  double bin_s = 1;
  std::vector<TimeBin> bins{};
};

// About so many bins, of a round width of at least a fifth of a second. duration_s: first send to last
// answer.
Timeline make_timeline(const std::vector<Outcome>& outcomes, const std::vector<SloTarget>& slos,
                       double duration_s, std::size_t about = 60);

// Whether a request kept every objective of its class. A failed one keeps none.
bool within(const SloTarget& slo, const Outcome& outcome);

}  // namespace lynx
