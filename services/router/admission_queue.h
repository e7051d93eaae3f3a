// Sequences that wait for a worker: bounded per SLO class, served in the order of their first-token deadlines
// (arrival + TTFT objective), whatever the class. A sequence that was accepted and comes back (retry, resume)
// keeps its place and is never refused. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/core/clock.h"

namespace lynx {

class AdmissionQueue {
 public:
  explicit AdmissionQueue(std::vector<std::uint64_t> class_limits);

  bool has_room(std::size_t slo_class, std::size_t sequences) const;
  void push(std::uint64_t flow, std::size_t slo_class, Clock::time_point first_token_deadline);
  // The first in order that `fits` accepts: what cannot be placed now does not hold up what comes behind it.
  template <typename Fits>
  std::optional<std::uint64_t> first_that(Fits fits) const {
    for (const auto& [key, flow] : order_)
      if (fits(flow)) return flow;
    return std::nullopt;
  }
  void erase(std::uint64_t flow);  // nothing when it does not wait

  bool empty() const { return order_.empty(); }
  std::size_t size() const { return order_.size(); }
  std::size_t depth(std::size_t slo_class) const { return depth_[slo_class]; }
  std::vector<std::uint64_t> flows() const;  // in order

 private:
  struct Waiting {
    Clock::time_point key;
    std::size_t slo_class;
  };
  std::vector<std::uint64_t> limits_;
  std::vector<std::size_t> depth_;
  std::set<std::pair<Clock::time_point, std::uint64_t>> order_;  // ties: the older flow first
  std::unordered_map<std::uint64_t, Waiting> waiting_;
};

// Events per second over the last few seconds: what Retry-After is computed from.
class RateMeter {
 public:
  void record(Clock::time_point now);
  double per_second(Clock::time_point now) const;

 private:
  double rate_ = 0;
  Clock::time_point updated_;
};

// Whole seconds until `waiting` sequences have left at that rate, from 1 to 60.
int retry_after_seconds(std::size_t waiting, double per_second);

}  // namespace lynx
