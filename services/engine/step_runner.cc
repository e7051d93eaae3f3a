#include "services/engine/step_runner.h"

#include <algorithm>
#include <utility>

#include "common/core/check.h"
#include "services/engine/counter_rng.h"

namespace lynx {

void StepRunner::launch(const StepPlan& plan, LayerObserver* observer) {
  lay_out(plan);
  model_.launch(batch_of(plan), cache_, observer);
}

void StepRunner::shadow(const StepPlan& plan, std::uint64_t turn) {
  std::vector<const Sequence*> candidates;
  for (const auto& [sequence, rows] : plan.slices)
    if (!sequence->sampling.exact && rows == 1 && sequence->uncached() == 1) candidates.push_back(sequence);
  if (candidates.empty()) return;
  const Sequence& sequence = *candidates[turn % candidates.size()];
  const SequenceRows own{0, 1, sequence.cached, sequence.blocks};
  const std::uint32_t row = 0;
  StepBatch batch;
  batch.tokens = std::span(sequence.tokens).subspan(sequence.cached, 1);
  batch.sequences = {&own, 1};
  batch.logit_rows = {&row, 1};
  batch.decode = true;
  model_.forward(batch, cache_, shadow_, nullptr);
  shadowed_ = sequence.id;
}

StepOutcome StepRunner::collect(const StepPlan& plan) {
  model_.collect(result_);
  StepOutcome outcome;
  outcome.layers = result_.layers;
  outcome.rows = static_cast<std::uint32_t>(tokens_.size());
  outcome.computed_rows = result_.computed_rows;
  outcome.work = work_of(plan);
  if (plan.phase == Phase::kPrefill) count_experts(plan);
  advance(plan, outcome);
  return outcome;
}

void StepRunner::lay_out(const StepPlan& plan) {
  tokens_.clear();
  rows_.clear();
  logit_rows_.clear();
  exact_.clear();
  sampling_.clear();
  receipts_ = false;
  for (const auto& [sequence, rows] : plan.slices) {
    rows_.push_back({static_cast<std::uint32_t>(tokens_.size()), rows, sequence->cached, sequence->blocks});
    const auto first = sequence->tokens.begin() + sequence->cached;
    tokens_.insert(tokens_.end(), first, first + rows);
    exact_.insert(exact_.end(), rows, sequence->sampling.exact ? 1 : 0);
    receipts_ |= plan.phase == Phase::kDecode && sequence->sampling.receipt;
    if (rows != sequence->uncached()) continue;
    logit_rows_.push_back(static_cast<std::uint32_t>(tokens_.size()) - 1);
    sampling_.push_back(sampling_of(*sequence));
    sampling_.back().logits = sequence->id == shadowed_;  // to be compared
  }
}

StepBatch StepRunner::batch_of(const StepPlan& plan) const {
  StepBatch batch;
  batch.tokens = tokens_;
  batch.sequences = rows_;
  batch.logit_rows = logit_rows_;
  batch.sampling = sampling_;
  if (plan.phase == Phase::kDecode) {
    batch.decode = true;
    batch.policy = policy_;
    batch.exact_rows = exact_;
    batch.row_routing = receipts_;
  }
  return batch;
}

// Reading a plan back costs a device some copies per layer, so it is done for those who ask alone.
void StepRunner::count_experts(const StepPlan& plan) {
  const auto counted = [](const StepSlice& slice) { return slice.sequence->expert_counts.wanted(); };
  if (std::none_of(plan.slices.begin(), plan.slices.end(), counted)) return;
  for (std::uint32_t layer = 0; layer < model_.config().layers; ++layer) {
    model_.read_plan(layer, routing_);
    std::uint32_t first = 0;
    for (const auto& [sequence, rows] : plan.slices) {
      if (sequence->expert_counts.wanted()) sequence->expert_counts.add(layer, routing_, first, rows);
      first += rows;
    }
  }
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
  LYNX_CHECK(result_.samples.size() == logit_rows_.size(), "the model sampled other rows than asked for");
  std::span<const float> rest(result_.logits);
  std::size_t row = 0;
  for (std::size_t slice = 0; slice < plan.slices.size(); ++slice) {
    const auto& [sequence, rows] = plan.slices[slice];
    sequence->cached += rows;
    if (sequence->uncached() != 0) continue;
    const std::span<const float> logits = take_logits(row, rest);
    if (sequence->id == shadowed_ && logits.size() == shadow_.logits.size())
      outcome.drift = compare_logits(shadow_.logits, logits);
    Result<SampledTokenData> token = sample(*sequence, result_.samples[row++], logits);
    if (token) {
      sequence->tokens.push_back(token->token);
      sequence->phase = Phase::kDecode;
      token->finish = static_cast<std::uint8_t>(finish_after(*sequence, model_.config()));
    }
    outcome.sampled.push_back({sequence->id, sequence->one_token, std::move(token), receipt_of(plan, slice),
                               sequence->expert_counts.shares()});
  }
  shadowed_ = kNobody;
}

// Of a decode step, where a sequence has one row. What prefill computes is exact, and in no receipt.
std::optional<StepReceipt> StepRunner::receipt_of(const StepPlan& plan, std::size_t slice) const {
  if (!receipts_ || !plan.slices[slice].sequence->sampling.receipt) return std::nullopt;
  LYNX_CHECK(result_.routing.size() == tokens_.size(), "the model told of other rows than asked for");
  const RowRouting& row = result_.routing[rows_[slice].first_row];
  const ModelConfig& model = model_.config();
  const double all = static_cast<double>(model.layers) * (1U << 24);
  return StepReceipt{.assignments = model.layers * model.router.top_k,
                     .remapped = row.remapped,
                     .router_mass = static_cast<float>(static_cast<double>(row.mass_q24) / all),
                     .batch = static_cast<std::uint32_t>(plan.slices.size())};
}

// The device draws what depends on this row's logits alone; the rest, and whoever wants to see
// log-probabilities, is the host sampler's.
RowSampling StepRunner::sampling_of(const Sequence& sequence) const {
  const SamplingParams& params = sequence.sampling;
  RowSampling out;
  out.on_device = params.repetition_penalty == 1 && params.presence_penalty == 0 &&
                  params.frequency_penalty == 0 && params.logit_bias.empty() && !params.logprobs &&
                  sequence.generated() >= params.min_tokens;
  out.temperature = params.temperature;
  out.top_k = params.top_k;
  out.top_p = params.top_p;
  out.min_p = params.min_p;
  out.uniform = uniform_at(params.seed, sequence.length());
  return out;
}

// Those of one of the R rows, off the front of what is left; empty: they stayed on the device.
std::span<const float> StepRunner::take_logits(std::size_t row, std::span<const float>& rest) const {
  if (result_.samples[row].state != RowSample::State::kLogits && !sampling_[row].logits) return {};
  const std::size_t vocab = model_.config().vocab;
  LYNX_CHECK(rest.size() >= vocab, "the model returned fewer logits than asked for");
  const std::span<const float> own = rest.first(vocab);
  rest = rest.subspan(vocab);
  return own;
}

Result<SampledTokenData> StepRunner::sample(const Sequence& sequence, const RowSample& row,
                                            std::span<const float> logits) {
  switch (row.state) {
    case RowSample::State::kLogits:
      break;
    case RowSample::State::kUnusable:
      return {ErrorCode::kInternal, "the model gave logits that are not numbers"};
    case RowSample::State::kToken: {
      SampledTokenData out;
      out.token = row.token;
      out.index = sequence.generated();
      return out;
    }
  }
  return sampler_.sample(logits, sequence.sampling,
                         {sequence.tokens, sequence.prompt_tokens, model_.config().eos});
}

}  // namespace lynx
