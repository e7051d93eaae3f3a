// How many distinct experts a layer-step needed of late: what a heartbeat tells the routers. Reads the
// engine's own histograms, so the figure is the one that the metrics show. IO thread.
#pragma once

#include <prometheus/histogram.h>

namespace lynx {

struct ExpertMeans {  // per layer-step; both 0 = no step
  float routed = 0;
  float activated = 0;
};

class ExpertMeter {
 public:
  // The histograms outlive the meter.
  ExpertMeter(const prometheus::Histogram& routed, const prometheus::Histogram& activated)
      : routed_{routed}, activated_{activated} {}

  // Means of the steps since the last call.
  ExpertMeans since_last() { return {.routed = routed_.mean(), .activated = activated_.mean()}; }

 private:
  struct Side {
    const prometheus::Histogram& histogram;
    double count = 0, sum = 0;  // at the last call
    float mean();
  };
  Side routed_, activated_;
};

}  // namespace lynx
