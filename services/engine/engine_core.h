// The engine without its thread: applies commands and makes steps. Deterministic, so tests drive it by hand.
// On a model that overlaps, the next step is planned and launched before the events of the last one go out,
// so that the device works while they are sent.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>

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
  RoutePolicy policy;          // of decode steps, as configured; the drift guard may tighten it
  bool report_layers = false;  // prefill worker: a LayerDone after every layer of a prefill step
  DriftLimits drift = {};
};

// One thread. Everything handed in outlives it.
class EngineCore {
 public:
  using Emit = std::function<void(EngineEvent)>;

  EngineCore(const EngineConfig& config, Model& model, KvCache& cache, const Clock& clock,
             EngineMetrics& metrics, Emit emit);

  ~EngineCore();  // waits for the step under way

  void apply(EngineCommand command);  // takes effect with the next step to be launched
  bool idle() const { return scheduler_.size() == 0 && ended_.empty(); }

  // Finishes one step, and emits one StepDone for it; also when all there is to report are ends. Throws
  // DeviceLost, after the batch's ends are emitted.
  void step();

 private:
  struct Flight;  // a step that is launched and not yet collected

  void admit(Sequence sequence);
  void launch();
  void look_at_drift(const StepPlan& plan);
  StepDone land();
  void collect(Flight& flight);
  void settle(SampledRow row, StepDone& done);
  void watch(const DriftSample& drift);
  void end(SequenceId id, Status why);
  void end_batch(const Flight& flight, const std::exception& why);

  const EngineConfig config_;
  Model& model_;
  KvCache& cache_;
  const bool overlaps_;
  const Clock& clock_;
  EngineMetrics& metrics_;
  const Emit emit_;
  BatchScheduler scheduler_;
  StepRunner runner_;
  DriftGuard guard_;
  std::vector<SequenceEnded> ended_;  // to be reported with the next StepDone
  std::unique_ptr<Flight> flight_;
  std::set<SequenceId> cancelled_;  // of the flight: they end when it lands
  std::exception_ptr lost_;         // the device is gone
  std::uint64_t steps_ = 0;
  bool look_failed_ = false;  // has been said
};

}  // namespace lynx
