// Step time against its model: what each step was expected to take before it ran, what it took, and the model
// itself. IO thread.
#pragma once

#include "common/metrics/registry.h"
#include "services/engine/step_cost.h"

namespace lynx {

class StepCostMetrics {
 public:
  explicit StepCostMetrics(MetricsRegistry& registry);

  // Of one step, in seconds; predicted by the model as it was before this step taught it.
  void compare(double predicted, double measured);
  void show(const StepCost& cost);

 private:
  prometheus::Histogram& predicted_;
  prometheus::Histogram& error_;
  prometheus::Gauge& fixed_;
  prometheus::Gauge& per_expert_gigabyte_;
  prometheus::Gauge& per_kv_gigabyte_;
};

}  // namespace lynx
