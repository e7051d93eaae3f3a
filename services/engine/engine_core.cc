#include "services/engine/engine_core.h"

#include <exception>
#include <utility>

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

EngineCore::EngineCore(const EngineConfig& config, Model& model, KvCache& cache, const Clock& clock,
                       EngineMetrics& metrics, Emit emit)
    : config_(config),
      model_(model),
      clock_(clock),
      metrics_(metrics),
      emit_(std::move(emit)),
      scheduler_(config.limits),
      runner_(model, cache, config.policy) {}

void EngineCore::apply(EngineCommand command) {
  if (auto* admit = std::get_if<AdmitSequence>(&command)) {
    scheduler_.add(std::move(admit->sequence));
    return;
  }
  end(std::get<CancelSequence>(command).id, {ErrorCode::kCancelled, "cancelled"});
}

void EngineCore::step() {
  StepDone done;
  done.step = ++steps_;
  done.started = clock_.now();
  StepPlan plan = scheduler_.plan(done.started);
  for (const SequenceId id : plan.expired)
    end(id, {ErrorCode::kDeadlineExceeded, "the request's deadline has passed"});
  done.phase = plan.phase;
  done.sequences = static_cast<std::uint32_t>(plan.slices.size());
  if (!plan.slices.empty()) execute(plan, done);
  done.finished = clock_.now();
  done.ended = std::exchange(ended_, {});
  if (done.sequences > 0 || !done.ended.empty()) emit_(std::move(done));
}

void EngineCore::execute(const StepPlan& plan, StepDone& done) {
  std::vector<SequenceId> batch;
  for (const StepSlice& slice : plan.slices) batch.push_back(slice.sequence->id);
  try {
    LayerReporter reporter(plan, clock_, emit_);
    const bool report = config_.report_layers && plan.phase == Phase::kPrefill;
    StepOutcome outcome = runner_.run(plan, report ? &reporter : nullptr);
    done.work = outcome.work;
    done.rows = outcome.rows;
    metrics_.observe_step(plan.phase, done.sequences, outcome, model_.config().expert_bytes(),
                          seconds(clock_.now() - done.started));
    for (SampledRow& row : outcome.sampled) settle(std::move(row), done);
  } catch (const std::exception& e) {
    // No memory for this batch: its sequences end with the cause, the worker lives.
    for (const SequenceId id : batch)
      end(id, {ErrorCode::kInternal, std::string("the step failed: ") + e.what()});
  }
}

void EngineCore::settle(SampledRow row, StepDone& done) {
  if (!row.token) {
    end(row.sequence, row.token.error());
    return;
  }
  const bool finished = row.token->finish != static_cast<std::uint8_t>(FinishReason::kNone);
  done.tokens.push_back({row.sequence, std::move(*row.token)});
  if (finished || row.leaves) end(row.sequence, {});
}

void EngineCore::end(SequenceId id, Status why) {
  // Unknown: it ended by itself while the command was under way, and that end has been reported.
  if (scheduler_.remove(id)) ended_.push_back({id, std::move(why)});
}

}  // namespace lynx
