#include "services/engine/scheduler.h"

#include <algorithm>
#include <utility>

namespace lynx {

void BatchScheduler::add(Sequence sequence) {
  sequences_.push_back(std::make_unique<Sequence>(std::move(sequence)));
}

std::optional<Sequence> BatchScheduler::remove(SequenceId id) {
  const auto found =
      std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& s) { return s->id == id; });
  if (found == sequences_.end()) return std::nullopt;
  Sequence out = std::move(**found);
  sequences_.erase(found);
  return out;
}

const Sequence* BatchScheduler::find(SequenceId id) const {
  const auto found =
      std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& s) { return s->id == id; });
  return found == sequences_.end() ? nullptr : found->get();
}

StepPlan BatchScheduler::plan(Clock::time_point now) {
  StepPlan plan;
  std::vector<Sequence*> prompts;
  std::vector<Sequence*> running;
  for (const auto& sequence : sequences_) {
    if (sequence->deadline <= now) {
      plan.expired.push_back(sequence->id);
    } else {
      (sequence->phase == Phase::kPrefill ? prompts : running).push_back(sequence.get());
    }
  }
  if (!prompts.empty()) {
    plan_prefill(prompts, plan);
    return plan;
  }
  plan.phase = Phase::kDecode;
  const auto batch = std::min<std::size_t>(running.size(), limits_.max_batch);
  for (std::size_t i = 0; i < batch; ++i) plan.slices.push_back({running[i], running[i]->uncached()});
  return plan;
}

void BatchScheduler::plan_prefill(std::vector<Sequence*>& waiting, StepPlan& plan) const {
  plan.phase = Phase::kPrefill;
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Sequence* a, const Sequence* b) { return a->deadline < b->deadline; });
  std::uint32_t left = limits_.chunk_tokens;
  for (Sequence* sequence : waiting) {
    if (left == 0 || plan.slices.size() == limits_.max_batch) return;
    const std::uint32_t rows = std::min(left, sequence->uncached());
    plan.slices.push_back({sequence, rows});
    left -= rows;
  }
}

}  // namespace lynx
