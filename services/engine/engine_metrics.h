// The engine's metrics (design section 10). Observed by the engine thread, scraped from the IO thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/metrics/registry.h"
#include "services/engine/sequence.h"
#include "services/engine/step_runner.h"

namespace lynx {

class EngineMetrics {
 public:
  explicit EngineMetrics(MetricsRegistry& registry);

  // expert_bytes: of one expert in one layer.
  void observe_step(Phase phase, std::uint32_t sequences, const StepOutcome& outcome,
                    std::size_t expert_bytes, double seconds);
  void observe_drift(const DriftSample& sample, std::uint32_t level);

  // Distinct experts per layer-step. Any thread may collect them.
  const prometheus::Histogram& routed() const { return routed_; }
  const prometheus::Histogram& activated() const { return activated_; }

 private:
  struct ByPhase {
    prometheus::Histogram* step_seconds = nullptr;
    prometheus::Histogram* batch_size = nullptr;
    prometheus::Histogram* step_rows = nullptr;
    prometheus::Histogram* computed_rows = nullptr;
  };

  struct ByLayer {
    prometheus::Counter* routed = nullptr;
    prometheus::Counter* activated = nullptr;
  };

  void observe_layer(const PlanStats& layer, std::size_t expert_bytes);
  ByLayer& of_layer(std::size_t layer);

  MetricsRegistry& registry_;
  std::array<ByPhase, 2> phases_;
  std::vector<ByLayer> layers_;  // as many as the steps have shown
  prometheus::Histogram& routed_;
  prometheus::Histogram& activated_;
  prometheus::Histogram& retained_mass_;
  prometheus::Counter& bytes_read_;
  prometheus::Counter& bytes_avoided_;
  prometheus::Counter& assignments_;
  prometheus::Counter& remapped_;
  prometheus::Histogram& drift_kl_;
  prometheus::Counter& drift_flips_;
  prometheus::Gauge& drift_level_;
};

}  // namespace lynx
