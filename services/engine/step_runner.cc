#include "services/engine/step_runner.h"

#include <utility>

#include "common/core/check.h"

namespace lynx {

StepOutcome StepRunner::run(const StepPlan& plan, LayerObserver* observer) {
  lay_out(plan);
  model_.forward(batch_of(plan), cache_, result_, observer);
  StepOutcome outcome;
  outcome.layers = result_.layers;
  outcome.rows = static_cast<std::uint32_t>(tokens_.size());
  outcome.work = work_of(plan);
  advance(plan, outcome);
  return outcome;
}

void StepRunner::lay_out(const StepPlan& plan) {
  tokens_.clear();
  rows_.clear();
  logit_rows_.clear();
  exact_.clear();
  for (const auto& [sequence, rows] : plan.slices) {
    rows_.push_back({static_cast<std::uint32_t>(tokens_.size()), rows, sequence->cached, sequence->blocks});
    const auto first = sequence->tokens.begin() + sequence->cached;
    tokens_.insert(tokens_.end(), first, first + rows);
    exact_.insert(exact_.end(), rows, sequence->sampling.exact ? 1 : 0);
    if (rows == sequence->uncached()) logit_rows_.push_back(static_cast<std::uint32_t>(tokens_.size()) - 1);
  }
}

ForwardBatch StepRunner::batch_of(const StepPlan& plan) const {
  ForwardBatch batch;
  batch.tokens = tokens_;
  batch.sequences = rows_;
  batch.logit_rows = logit_rows_;
  if (plan.phase == Phase::kDecode) {
    batch.policy = policy_;
    batch.exact_rows = exact_;
  }
  return batch;
}

StepWork StepRunner::work_of(const StepPlan& plan) const {
  StepWork work;
  for (const PlanStats& layer : result_.layers)
    work.expert_bytes += static_cast<double>(layer.activated_experts * model_.config().expert_bytes());
  const PageLayout& layout = cache_.layout();
  const double token_bytes = 2.0 * static_cast<double>(layout.token_bytes()) * layout.layers;  // K and V
  for (const auto& [sequence, rows] : plan.slices) work.kv_bytes += token_bytes * (sequence->cached + rows);
  return work;
}

void StepRunner::advance(const StepPlan& plan, StepOutcome& outcome) {
  const std::size_t vocab = model_.config().vocab;
  LYNX_CHECK(result_.logits.size() == logit_rows_.size() * vocab,
             "the model returned other logits than asked for");
  std::span<const float> logits(result_.logits);
  for (const auto& [sequence, rows] : plan.slices) {
    sequence->cached += rows;
    if (sequence->uncached() != 0) continue;
    outcome.sampled.push_back({sequence->id, sequence->one_token, sample(*sequence, logits.first(vocab))});
    logits = logits.subspan(vocab);
  }
}

Result<SampledTokenData> StepRunner::sample(Sequence& sequence, std::span<const float> logits) {
  const SamplingContext context{sequence.tokens, sequence.prompt_tokens, model_.config().eos};
  Result<SampledTokenData> sampled = sampler_.sample(logits, sequence.sampling, context);
  if (!sampled) return sampled;
  sequence.tokens.push_back(sampled->token);
  sequence.phase = Phase::kDecode;
  sampled->finish = static_cast<std::uint8_t>(finish_after(sequence, model_.config()));
  return sampled;
}

}  // namespace lynx
