#include "services/engine/engine_core.h"

#include <exception>
#include <span>
#include <utility>

#include "common/core/log.h"

namespace lynx {
namespace {

class LayerReporter final : public LayerObserver {
 public:
  LayerReporter(const StepPlan& plan, const Clock& clock, const EngineCore::Emit& emit)
      : clock_(clock), emit_(emit), started_(clock.now()) {
    auto parts = std::make_shared<std::vector<ChunkPart>>();
    for (const auto& [sequence, rows] : plan.slices)
      parts->push_back(
          {sequence->id, sequence->cached, sequence->cached + rows, rows == sequence->uncached()});
    parts_ = std::move(parts);
  }
  void layer_done(std::uint32_t layer) override { emit_(LayerDone{parts_, layer, started_, clock_.now()}); }

 private:
  const Clock& clock_;
  const EngineCore::Emit& emit_;
  const Clock::time_point started_;
  std::shared_ptr<const std::vector<ChunkPart>> parts_;
};

}  // namespace

struct EngineCore::Flight {
  StepPlan plan;
  std::set<SequenceId> batch;
  std::unique_ptr<LayerReporter> reporter;
  StepDone done;
};

EngineCore::EngineCore(const EngineConfig& config, Model& model, KvCache& cache, const Clock& clock,
                       EngineMetrics& metrics, Emit emit)
    : config_(config),
      model_(model),
      cache_(cache),
      overlaps_(model.traits().overlaps),
      clock_(clock),
      metrics_(metrics),
      emit_(std::move(emit)),
      scheduler_(config.limits),
      runner_(model, cache, config.policy),
      guard_(config.drift, config.policy, model.config().router) {}

EngineCore::~EngineCore() {
  if (!flight_) return;
  try {
    StepResult ignored;
    model_.collect(ignored);
  } catch (const std::exception& e) {
    log::warn("the last step failed: {}", e.what());
  }
}

void EngineCore::apply(EngineCommand command) {
  if (auto* admitted = std::get_if<AdmitSequence>(&command)) return admit(std::move(admitted->sequence));
  const SequenceId id = std::get<CancelSequence>(command).id;
  if (flight_ && flight_->batch.contains(id)) {
    cancelled_.insert(id);
  } else {
    end(id, {ErrorCode::kCancelled, "cancelled"});
  }
}

void EngineCore::admit(Sequence sequence) {
  const SequenceId id = sequence.id;
  // A decode sequence comes with KV that another worker wrote; a prompt's cached prefix was computed here.
  const std::uint32_t foreign = sequence.phase == Phase::kDecode ? sequence.cached : 0;
  scheduler_.add(std::move(sequence));
  if (foreign == 0) return;
  try {
    const std::span<const BlockId> blocks(scheduler_.find(id)->blocks);
    model_.import_kv(cache_, blocks.first(cache_.layout().blocks_for(foreign)));
  } catch (const std::exception& e) {
    end(id, {ErrorCode::kInternal, std::string("the KV did not reach the device: ") + e.what()});
  }
}

void EngineCore::step() {
  if (!flight_) launch();
  StepDone done = land();
  if (overlaps_ && !lost_) launch();
  done.ended = std::exchange(ended_, {});
  if (done.sequences > 0 || !done.ended.empty()) emit_(std::move(done));
  if (lost_) std::rethrow_exception(lost_);
}

void EngineCore::launch() {
  auto flight = std::make_unique<Flight>();
  StepDone& done = flight->done;
  done.started = clock_.now();
  flight->plan = scheduler_.plan(done.started);
  const StepPlan& plan = flight->plan;
  for (const SequenceId id : plan.expired)
    end(id, {ErrorCode::kDeadlineExceeded, "the request's deadline has passed"});
  if (plan.slices.empty()) return;
  done.phase = plan.phase;
  done.sequences = static_cast<std::uint32_t>(plan.slices.size());
  for (const StepSlice& slice : plan.slices) flight->batch.insert(slice.sequence->id);
  if (config_.report_layers && plan.phase == Phase::kPrefill)
    flight->reporter = std::make_unique<LayerReporter>(plan, clock_, emit_);
  try {
    if (plan.phase == Phase::kDecode && guard_.samples_step(done.sequences)) {
      look_at_drift(plan);
      done.started = clock_.now();  // the step-cost model knows nothing of the look at the exact model
    }
    runner_.launch(plan, flight->reporter.get());
    flight_ = std::move(flight);
  } catch (const std::exception& e) {
    end_batch(*flight, e);
  }
}

// The look is no part of the service: without the memory for it, the sample is left out and the step goes on.
void EngineCore::look_at_drift(const StepPlan& plan) {
  try {
    runner_.shadow(plan, steps_);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& e) {
    if (!std::exchange(look_failed_, true))
      log::warn("no sample of the drift, and no further word about it: {}", e.what());
  }
}

StepDone EngineCore::land() {
  StepDone done;
  if (const std::unique_ptr<Flight> flight = std::exchange(flight_, nullptr)) {
    collect(*flight);
    done = std::move(flight->done);
  } else {
    done.started = clock_.now();
  }
  done.step = ++steps_;
  done.finished = clock_.now();
  return done;
}

void EngineCore::collect(Flight& flight) {
  StepDone& done = flight.done;
  try {
    StepOutcome outcome = runner_.collect(flight.plan);
    done.work = outcome.work;
    done.rows = outcome.rows;
    metrics_.observe_step(flight.plan.phase, done.sequences, outcome, model_.config().expert_bytes(),
                          seconds(clock_.now() - done.started));
    if (outcome.drift) watch(*outcome.drift);
    for (const SequenceId id : std::exchange(cancelled_, {})) end(id, {ErrorCode::kCancelled, "cancelled"});
    for (SampledRow& row : outcome.sampled)
      if (scheduler_.find(row.sequence) != nullptr) settle(std::move(row), done);
  } catch (const std::exception& e) {
    cancelled_.clear();
    end_batch(flight, e);
  }
}

// No memory for this batch, or no device any more: its sequences end with the cause. After a want of memory
// the worker lives on.
void EngineCore::end_batch(const Flight& flight, const std::exception& why) {
  for (const SequenceId id : flight.batch)
    end(id, {ErrorCode::kInternal, std::string("the step failed: ") + why.what()});
  if (dynamic_cast<const DeviceLost*>(&why) != nullptr) lost_ = std::current_exception();
}

void EngineCore::watch(const DriftSample& drift) {
  const std::uint32_t before = guard_.level();
  if (guard_.observe(drift)) {
    runner_.set_policy(guard_.policy());
    log::warn(
        "drift of {:.3f} nats per token against a limit of {:.3f}: routing policy {} {} (step {} of {})",
        guard_.judged_kl(), config_.drift.kl, to_string(config_.policy.kind),
        guard_.level() > before ? "tightened" : "relaxed", guard_.level(), kDriftLevels);
  }
  metrics_.observe_drift(drift, guard_.level());
}

void EngineCore::settle(SampledRow row, StepDone& done) {
  if (!row.token) {
    end(row.sequence, row.token.error());
    return;
  }
  const bool finished = row.token->finish != static_cast<std::uint8_t>(FinishReason::kNone);
  done.tokens.push_back({row.sequence, std::move(*row.token), row.receipt, std::move(row.expert_shares)});
  if (finished || row.leaves) end(row.sequence, {});
}

void EngineCore::end(SequenceId id, Status why) {
  // Unknown: it ended by itself while the command was under way, and that end has been reported.
  if (scheduler_.remove(id)) ended_.push_back({id, std::move(why)});
}

}  // namespace lynx
