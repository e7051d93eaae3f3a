// Summaries of samples, as numpy computes them: percentiles by linear interpolation, population standard
// deviation.
#pragma once

#include <cstddef>
#include <vector>

namespace lynx {

struct Summary {
  std::size_t count = 0;
  double mean = 0, std = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

// All zero for no samples.
Summary summarize(std::vector<double> samples);

// q in [0, 1]; sorted ascending and not empty.
double percentile(const std::vector<double>& sorted, double q);

}  // namespace lynx
