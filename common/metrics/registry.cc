#include "common/metrics/registry.h"

#include <prometheus/family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>

namespace lynx {

MetricsRegistry::MetricsRegistry(Labels constant)
    : constant_(std::move(constant)), registry_(std::make_shared<prometheus::Registry>()) {}
MetricsRegistry::~MetricsRegistry() = default;

prometheus::Counter& MetricsRegistry::counter(const std::string& name, const std::string& help,
                                              const Labels& labels) {
  return prometheus::BuildCounter()
      .Name("lynx_" + name)
      .Help(help)
      .Labels(constant_)
      .Register(*registry_)
      .Add(labels);
}

prometheus::Gauge& MetricsRegistry::gauge(const std::string& name, const std::string& help,
                                          const Labels& labels) {
  return prometheus::BuildGauge()
      .Name("lynx_" + name)
      .Help(help)
      .Labels(constant_)
      .Register(*registry_)
      .Add(labels);
}

prometheus::Histogram& MetricsRegistry::histogram(const std::string& name, const std::string& help,
                                                  const std::vector<double>& bounds, const Labels& labels) {
  return prometheus::BuildHistogram()
      .Name("lynx_" + name)
      .Help(help)
      .Labels(constant_)
      .Register(*registry_)
      .Add(labels, bounds);
}

std::string MetricsRegistry::serialize() const {
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

const std::vector<double>& token_seconds_bounds() {
  static const std::vector<double> bounds{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008,
                                          0.01,   0.015,  0.02,   0.025, 0.03,  0.04,  0.05,  0.075, 0.1,
                                          0.15,   0.2,    0.3,    0.5,   1,     2,     5,     10};
  return bounds;
}

const std::vector<double>& request_seconds_bounds() {
  static const std::vector<double> bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2,
                                          0.3,   0.5,    0.75,  1,    1.5,   2,    3,   5,
                                          10,    20,     30,    60,   120,   300,  600};
  return bounds;
}

const std::vector<double>& expert_count_bounds() {
  static const std::vector<double> bounds{1,  2,  4,  6,  8,  10, 12, 14, 16, 20,  24,  28,  32,  36,  40,
                                          44, 48, 52, 56, 60, 64, 72, 80, 96, 112, 128, 160, 192, 256, 512};
  return bounds;
}

const std::vector<double>& ratio_bounds() {
  static const std::vector<double> bounds{0.5,   0.6,  0.7,  0.75, 0.8,  0.85,  0.9,
                                          0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 1};
  return bounds;
}

}  // namespace lynx
