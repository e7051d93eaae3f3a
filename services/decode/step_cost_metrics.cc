#include "services/decode/step_cost_metrics.h"

#include <cmath>

namespace lynx {
namespace {

constexpr double kGigabyte = 1e9;
constexpr const char* kPerGigabyte = "step_cost_seconds_per_gigabyte";
constexpr const char* kPerGigabyteHelp =
    "Learned cost of a decode step per 10^9 bytes that it reads, by what it reads";

}  // namespace

StepCostMetrics::StepCostMetrics(MetricsRegistry& registry)
    : predicted_(
          registry.histogram("step_predicted_seconds",
                             "Duration that the step-cost model expected of a decode step before it ran",
                             token_seconds_bounds())),
      error_(registry.histogram("step_prediction_error_seconds",
                                "Absolute difference between a decode step and what was expected of it",
                                token_seconds_bounds())),
      fixed_(registry.gauge("step_cost_fixed_seconds", "Learned cost of a decode step that reads nothing")),
      per_expert_gigabyte_(registry.gauge(kPerGigabyte, kPerGigabyteHelp, {{"kind", "expert"}})),
      per_kv_gigabyte_(registry.gauge(kPerGigabyte, kPerGigabyteHelp, {{"kind", "kv"}})) {}

void StepCostMetrics::compare(double predicted, double measured) {
  predicted_.Observe(predicted);
  error_.Observe(std::abs(predicted - measured));
}

void StepCostMetrics::show(const StepCost& cost) {
  fixed_.Set(cost.fixed_seconds());
  per_expert_gigabyte_.Set(cost.seconds_per_expert_byte() * kGigabyte);
  per_kv_gigabyte_.Set(cost.seconds_per_kv_byte() * kGigabyte);
}

}  // namespace lynx
