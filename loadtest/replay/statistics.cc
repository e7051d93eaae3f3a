#include "loadtest/replay/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lynx {

double percentile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const auto n = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double s : samples) squares += (s - mean) * (s - mean);
  return {.count = samples.size(),
          .mean = mean,
          .std = std::sqrt(squares / n),
          .p50 = percentile(samples, 0.5),
          .p90 = percentile(samples, 0.9),
          .p95 = percentile(samples, 0.95),
          .p99 = percentile(samples, 0.99),
          .max = samples.back()};
}

}  // namespace lynx
