// Quantiles of the last while from a Prometheus histogram, which itself only knows since birth: keeps
// snapshots and looks at the difference. Loop thread.
#pragma once

#include <prometheus/histogram.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace lynx {

class RecentHistogram {
 public:
  // The window is so many snapshots long.
  RecentHistogram(prometheus::Histogram& source, std::size_t window);

  void snapshot();

  std::uint64_t count() const;       // observations inside the window
  std::uint64_t last_count() const;  // of them, those between the last two snapshots
  double quantile(double q) const;   // linear inside its bucket, as histogram_quantile; 0 when there are none

 private:
  struct State {
    std::vector<std::uint64_t> cumulative;  // per bucket, the last is +Inf
    std::uint64_t count = 0;
  };
  State read() const;

  prometheus::Histogram& source_;
  const std::size_t window_;
  std::vector<double> bounds_;  // upper, without +Inf
  std::deque<State> states_;    // at most window_ + 1
};

}  // namespace lynx
