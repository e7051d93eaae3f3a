// How many distinct experts a layer-step needed of late: what a heartbeat tells the routers. Reads the
// engine's own histogram, so the figure is the one that the metrics show. IO thread.
#pragma once

#include "common/metrics/registry.h"

namespace lynx {

struct ExpertMeans {  // per layer-step; both 0 = no step
  float routed = 0;
  float activated = 0;
};

class ExpertMeter {
 public:
  // The registry outlives the meter.
  explicit ExpertMeter(const MetricsRegistry& registry) : registry_(registry) {}

  // Means of the steps since the last call.
  ExpertMeans since_last();

 private:
  const MetricsRegistry& registry_;
  MetricsRegistry::Totals routed_, activated_;
};

}  // namespace lynx
