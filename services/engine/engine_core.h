// The engine without its thread: applies commands and makes steps. Deterministic, so tests drive it by hand.
#pragma once

#include <functional>
#include <memory>

#include "common/core/clock.h"
#include "services/engine/engine_messages.h"
#include "services/engine/engine_metrics.h"
#include "services/engine/kv_cache.h"
#include "services/engine/model.h"
#include "services/engine/scheduler.h"
#include "services/engine/step_runner.h"

namespace lynx {

struct EngineConfig {
  BatchLimits limits;
  RoutePolicy policy;          // of decode steps
  bool report_layers = false;  // prefill worker: a LayerDone after every layer of a prefill step
};

// One thread. Everything handed in outlives it.
class EngineCore {
 public:
  using Emit = std::function<void(EngineEvent)>;

  EngineCore(const EngineConfig& config, Model& model, KvCache& cache, const Clock& clock,
             EngineMetrics& metrics, Emit emit);

  void apply(EngineCommand command);  // takes effect with the next step
  bool idle() const { return scheduler_.size() == 0 && ended_.empty(); }

  // One step, and one StepDone for it; also when all there is to report are ends.
  void step();

 private:
  void execute(const StepPlan& plan, StepDone& done);
  void settle(SampledRow row, StepDone& done);
  void end(SequenceId id, Status why);

  const EngineConfig config_;
  Model& model_;
  const Clock& clock_;
  EngineMetrics& metrics_;
  const Emit emit_;
  BatchScheduler scheduler_;
  StepRunner runner_;
  std::vector<SequenceEnded> ended_;  // to be reported with the next StepDone
  std::uint64_t steps_ = 0;
};

}  // namespace lynx
