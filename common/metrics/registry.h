// Metrics of one process: a thin layer over prometheus-cpp that fixes our prefix, help texts and buckets in
// one place. Objects returned live as long as the registry; observing is thread-safe and costs tens of
// nanoseconds.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace prometheus {
class Registry;
}

namespace lynx {

using Labels = std::map<std::string, std::string>;

class MetricsRegistry {
 public:
  // constant: labels that every metric of this process carries, beside its own; the two never share a name.
  explicit MetricsRegistry(Labels constant = {});
  ~MetricsRegistry();

  // name without the prefix `lynx_`. The same name and labels give the same object.
  prometheus::Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  prometheus::Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const std::vector<double>& bounds, const Labels& labels = {});

  // The text exposition format of everything registered. Any thread.
  std::string serialize() const;

 private:
  const Labels constant_;
  std::shared_ptr<prometheus::Registry> registry_;
};

// Bucket bounds. Seconds for latencies of a token (0.1 ms .. 10 s) and of a request (1 ms .. 10 min);
// counts 1..512.
const std::vector<double>& token_seconds_bounds();
const std::vector<double>& request_seconds_bounds();
const std::vector<double>& expert_count_bounds();
const std::vector<double>& ratio_bounds();  // 0.5 .. 1, fine near 1: retained router mass

}  // namespace lynx
