#include "services/worker/expert_meter.h"

#include <utility>

namespace lynx {
namespace {

float mean_since(MetricsRegistry::Totals& last, const MetricsRegistry::Totals& now) {
  const double count = now.count - last.count;
  const double sum = now.sum - last.sum;
  last = now;
  return count > 0 ? static_cast<float>(sum / count) : 0;
}

}  // namespace

ExpertMeans ExpertMeter::since_last() {
  const auto now = [&](const char* stage) {
    return registry_.histogram_totals("unique_experts", "stage", stage);
  };
  return {.routed = mean_since(routed_, now("routed")),
          .activated = mean_since(activated_, now("activated"))};
}

}  // namespace lynx
