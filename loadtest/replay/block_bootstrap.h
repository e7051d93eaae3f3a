// Confidence intervals of a figure over pairs whose neighbours are correlated: a circular block bootstrap
// (Politis & Romano 1992). Runs of consecutive pairs are drawn, not single ones, of a length of the cube root
// of their number. Pure; the same seed draws the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace lynx {

struct Interval {
  // low..high holds the true value in 95 of 100 repetitions. NaN: no value; no interval.
  double value = 0, low = 0, high = 0;
};
// "1.043 [1.020, 1.067]"; "1.043 [no interval]"; "none".
std::string to_string(const Interval& interval);

struct BootstrapOptions {
  std::uint64_t seed = 0;
  std::size_t resamples = 1000;
};

// The figure of the pairs drawn: indices below `pairs`, each any number of times. Not finite: they have none.
using BootstrapFigure = std::function<double(std::span<const std::size_t> drawn)>;

// pairs: at least 1. Resamples without a figure are left out; where they are more than one in twenty, what is
// left says too little, and there is no interval.
Interval bootstrap_interval(std::size_t pairs, const BootstrapFigure& figure,
                            const BootstrapOptions& options);

}  // namespace lynx
