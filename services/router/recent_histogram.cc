#include "services/router/recent_histogram.h"

namespace lynx {

RecentHistogram::RecentHistogram(prometheus::Histogram& source, std::size_t window)
    : source_(source), window_(window) {
  for (const auto& bucket : source_.Collect().histogram.bucket) bounds_.push_back(bucket.upper_bound);
  if (!bounds_.empty()) bounds_.pop_back();  // +Inf
  states_.push_back(read());
}

RecentHistogram::State RecentHistogram::read() const {
  const prometheus::ClientMetric metric = source_.Collect();
  State out;
  for (const auto& bucket : metric.histogram.bucket) out.cumulative.push_back(bucket.cumulative_count);
  // Not sample_count: buckets are read one after the other while others observe.
  out.count = out.cumulative.empty() ? 0 : out.cumulative.back();
  return out;
}

void RecentHistogram::snapshot() {
  states_.push_back(read());
  while (states_.size() > window_ + 1) states_.pop_front();
}

std::uint64_t RecentHistogram::count() const { return states_.back().count - states_.front().count; }

std::uint64_t RecentHistogram::last_count() const {
  return states_.size() < 2 ? 0 : states_.back().count - states_[states_.size() - 2].count;
}

double RecentHistogram::quantile(double q) const {
  const double rank = q * static_cast<double>(count());
  if (rank <= 0) return 0;
  double below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    const auto upto = static_cast<double>(states_.back().cumulative[i] - states_.front().cumulative[i]);
    const double low = i == 0 ? 0 : bounds_[i - 1];
    if (upto >= rank && upto > below) return low + (bounds_[i] - low) * (rank - below) / (upto - below);
    below = upto;
  }
  return bounds_.empty() ? 0 : bounds_.back();  // beyond the last bound: at least so much
}

}  // namespace lynx
