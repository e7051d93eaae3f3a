#include "services/prefill/prefill_metrics.h"

namespace lynx {

PrefillMetrics::PrefillMetrics(MetricsRegistry& registry)
    : registry_(registry),
      cached_tokens_(registry.counter("prefix_cache_tokens_total",
                                      "Prompt tokens, by where their KV came from", {{"outcome", "hit"}})),
      fresh_tokens_(registry.counter("prefix_cache_tokens_total",
                                     "Prompt tokens, by where their KV came from", {{"outcome", "miss"}})),
      queue_seconds_(registry.histogram("prefill_queue_seconds",
                                        "From the request's arrival to its first chunk",
                                        request_seconds_bounds())),
      compute_seconds_(registry.histogram(
          "prefill_compute_seconds", "From the first chunk to the first token", request_seconds_bounds())),
      transfer_seconds_(registry.histogram("kv_transfer_seconds",
                                           "From the first push posted to the last acknowledged",
                                           request_seconds_bounds())),
      exposed_seconds_(registry.histogram("kv_transfer_exposed_seconds",
                                          "The part of the transfer after the last layer was computed",
                                          token_seconds_bounds())),
      overlap_ratio_(
          registry.histogram("kv_push_overlap_ratio",
                             "Share of the time with a push under way that lies within the prompt's compute",
                             {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1})) {}

void PrefillMetrics::looked_up(std::uint32_t cached, std::uint32_t tokens) {
  cached_tokens_.Increment(cached);
  fresh_tokens_.Increment(tokens - cached);
}

void PrefillMetrics::computed(double queue_seconds, double compute_seconds) {
  queue_seconds_.Observe(queue_seconds);
  compute_seconds_.Observe(compute_seconds);
}

void PrefillMetrics::pushed(std::uint64_t bytes, const std::string& transport) {
  registry_.counter("kv_transfer_bytes_total", "KV bytes that landed", {{"transport", transport}})
      .Increment(static_cast<double>(bytes));
}

void PrefillMetrics::handed_over(const PushTimeline& timeline) {
  transfer_seconds_.Observe(timeline.transfer_seconds());
  exposed_seconds_.Observe(timeline.exposed_seconds());
  overlap_ratio_.Observe(timeline.overlap_ratio());
}

}  // namespace lynx
