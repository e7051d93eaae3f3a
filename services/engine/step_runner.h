// Carries out one planned step on a model: lays the rows out and launches the forward pass; then collects
// what came of it, samples what the device did not, and moves the sequences on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "services/engine/drift_guard.h"
#include "services/engine/kv_cache.h"
#include "services/engine/model.h"
#include "services/engine/sampler.h"
#include "services/engine/scheduler.h"
#include "services/engine/step_cost.h"
#include "services/engine/step_receipt.h"

namespace lynx {

struct SampledRow {
  SequenceId sequence = 0;
  bool leaves = false;             // Sequence::one_token
  Result<SampledTokenData> token;  // an error ends this sequence alone
  std::optional<StepReceipt> receipt{};
  std::vector<std::uint8_t> expert_shares{};  // ExpertCounts::shares of those counted
};

struct StepOutcome {
  std::vector<SampledRow> sampled;    // the sequences whose last uncached token was in this step
  std::span<const PlanStats> layers;  // valid until the next collect
  std::uint32_t rows = 0;
  std::uint32_t computed_rows = 0;  // padding included
  StepWork work;
  std::optional<DriftSample> drift;  // of the row that was shadowed
};

// Engine thread. The model and the cache outlive it.
class StepRunner {
 public:
  // policy: of decode steps; prefill steps are always exact.
  StepRunner(Model& model, KvCache& cache, const RoutePolicy& policy)
      : model_(model), cache_(cache), policy_(policy) {}

  // Both throw what the model throws (memory, the device); the sequences are then unchanged, and the step is
  // over. In between, plan, its sequences and the observer stay as they are.
  void launch(const StepPlan& plan, LayerObserver* observer);
  // Right before the launch of a decode step: computes one of its rows alone, with all its experts; `turn`
  // picks it from those that do not ask for exactness. The step writes that row's KV anew and draws its token
  // where it would have without the look. collect() then tells how far the two are apart.
  void shadow(const StepPlan& plan, std::uint64_t turn);
  void set_policy(const RoutePolicy& policy) { policy_ = policy; }  // from the next launch on
  StepOutcome collect(const StepPlan& plan);

 private:
  static constexpr SequenceId kNobody = ~SequenceId{0};

  void lay_out(const StepPlan& plan);
  StepBatch batch_of(const StepPlan& plan) const;
  void count_experts(const StepPlan& plan);
  StepWork work_of(const StepPlan& plan) const;
  void advance(const StepPlan& plan, StepOutcome& outcome);
  std::optional<StepReceipt> receipt_of(const StepPlan& plan, std::size_t slice) const;
  RowSampling sampling_of(const Sequence& sequence) const;
  std::span<const float> take_logits(std::size_t row, std::span<const float>& rest) const;
  Result<SampledTokenData> sample(const Sequence& sequence, const RowSample& row,
                                  std::span<const float> logits);

  Model& model_;
  KvCache& cache_;
  RoutePolicy policy_;
  Sampler sampler_;
  StepResult result_;
  ExpertPlan routing_;           // of the layer that is being counted
  std::vector<TokenId> tokens_;  // [T]
  std::vector<SequenceRows> rows_;
  std::vector<std::uint32_t> logit_rows_;  // [R]
  std::vector<std::uint8_t> exact_;        // [T]
  std::vector<RowSampling> sampling_;      // [R]
  bool receipts_ = false;                  // a sequence of this decode step asks for one
  StepResult shadow_;
  SequenceId shadowed_ = kNobody;  // of the step under way
};

}  // namespace lynx
