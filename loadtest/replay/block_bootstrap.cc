#include "loadtest/replay/block_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "loadtest/replay/mix_bits.h"
#include "loadtest/replay/statistics.h"

namespace lynx {

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
    values.push_back(std::isfinite(value) ? value : 0);  // a NaN has no place in an order
  }
  std::ranges::sort(values);
  out.low = percentile(values, 0.025);
  out.high = percentile(values, 0.975);
  return out;
}

}  // namespace lynx
