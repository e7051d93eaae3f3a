#include "loadtest/replay/block_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <vector>

#include "loadtest/replay/mix_bits.h"
#include "loadtest/replay/statistics.h"

namespace lynx {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kMostLeftOut = 0.05;  // of the resamples

}  // namespace

std::string to_string(const Interval& interval) {
  if (!std::isfinite(interval.value)) return "none";
  char out[96];
  if (std::isfinite(interval.low) && std::isfinite(interval.high))
    std::snprintf(out, sizeof out, "%.3f [%.3f, %.3f]", interval.value, interval.low, interval.high);
  else
    std::snprintf(out, sizeof out, "%.3f [no interval]", interval.value);
  return out;
}

Interval bootstrap_interval(std::size_t pairs, const BootstrapFigure& figure,
                            const BootstrapOptions& options) {
  const auto block = static_cast<std::size_t>(std::ceil(std::cbrt(static_cast<double>(pairs))));
  std::vector<std::size_t> drawn(pairs);
  std::iota(drawn.begin(), drawn.end(), std::size_t{0});
  Interval out;
  out.value = figure(drawn);
  std::vector<double> values;
  for (std::size_t resample = 0; resample < options.resamples; ++resample) {
    const std::uint64_t seed = mix_bits(options.seed, resample);
    std::size_t from = 0;
    for (std::size_t i = 0; i < pairs; ++i) {
      from = i % block == 0 ? static_cast<std::size_t>(mix_bits(seed, i) % pairs) : (from + 1) % pairs;
      drawn[i] = from;
    }
    const double value = figure(drawn);
    if (std::isfinite(value)) values.push_back(value);
  }
  const auto left_out = static_cast<double>(options.resamples - values.size());
  if (values.empty() || !std::isfinite(out.value) ||
      left_out > kMostLeftOut * static_cast<double>(options.resamples)) {
    out.low = out.high = kNone;
    return out;
  }
  std::ranges::sort(values);
  out.low = percentile(values, 0.025);
  out.high = percentile(values, 0.975);
  return out;
}

}  // namespace lynx
