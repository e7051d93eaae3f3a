// What the hand-over of KV costs, and how much of it hides behind compute.
#pragma once

#include <string>

#include "common/metrics/registry.h"
#include "services/prefill/push_timeline.h"

namespace lynx {

class PrefillMetrics {
 public:
  explicit PrefillMetrics(MetricsRegistry& registry);

  void looked_up(std::uint32_t cached, std::uint32_t tokens);   // of one prompt, in the prefix cache
  void computed(double queue_seconds, double compute_seconds);  // of one prompt
  void pushed(std::uint64_t bytes, const std::string& transport);
  void handed_over(const PushTimeline& timeline);

 private:
  MetricsRegistry& registry_;
  prometheus::Counter& cached_tokens_;
  prometheus::Counter& fresh_tokens_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& compute_seconds_;
  prometheus::Histogram& transfer_seconds_;
  prometheus::Histogram& exposed_seconds_;
  prometheus::Histogram& overlap_ratio_;
};

}  // namespace lynx
