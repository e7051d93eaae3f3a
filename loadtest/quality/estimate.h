// A mean and the standard error of it, from independent samples.
#pragma once

#include <cmath>
#include <cstddef>

namespace lynx {

class Estimate {
 public:
  void add(double x) {  // Welford
    ++n_;
    const double d = x - mean_;
    mean_ += d / static_cast<double>(n_);
    squares_ += d * (x - mean_);
  }
  std::size_t samples() const { return n_; }
  double mean() const { return mean_; }
  double error() const {  // one standard error; 0 when one sample says nothing about it
    if (n_ < 2) return 0;
    const auto n = static_cast<double>(n_);
    return std::sqrt(squares_ / (n - 1) / n);
  }

 private:
  std::size_t n_ = 0;
  double mean_ = 0, squares_ = 0;
};

}  // namespace lynx
