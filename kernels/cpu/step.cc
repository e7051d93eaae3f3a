// Taking a step's rows in and giving its results out.
#include <algorithm>
#include <utility>

#include "common/core/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace lynx {

void CpuBackend::run_step(const StepBatch& batch, KvPool& kv, KvReady kv_ready,
                          const Operations& operations) {
  step_.batch = batch;
  step_.kv = &kv;
  step_.kv_ready = std::move(kv_ready);
  step_.positions.clear();
  step_.logits.clear();
  for (const SequenceRows& s : batch.sequences) {
    LYNX_CHECK(s.first_row == step_.positions.size(), "the sequences cover the rows in order");
    for (std::uint32_t i = 0; i < s.rows; ++i) step_.positions.push_back(s.context + i);
  }
  LYNX_CHECK(step_.positions.size() == batch.tokens.size(), "the sequences cover every row");
  step_.live.assign(batch.tokens.size(), 1);
  operations(
      {static_cast<std::uint32_t>(batch.tokens.size()), static_cast<std::uint32_t>(batch.logit_rows.size())});
}

void CpuBackend::sample(TensorView logits) {
  LYNX_CHECK(logits.rows == step_.batch.logit_rows.size(), "sample: one row of logits per logit row");
  step_.logits.resize(std::size_t{logits.rows} * logits.cols);
  for (std::size_t r = 0; r < logits.rows; ++r)
    std::copy_n(logits.f32_row(r), logits.cols, step_.logits.data() + r * logits.cols);
}

namespace {

// Slots that hold an expert: all k, but for a policy that gives its rows fewer.
std::uint32_t used_slots(const ExpertPlan& plan, std::size_t row) {
  const auto slots = std::span(plan.experts).subspan(row * plan.top_k, plan.top_k);
  return static_cast<std::uint32_t>(plan.top_k - std::ranges::count(slots, ExpertPlan::kNoExpert));
}

void add_rows(std::span<RowRouting> sums, const ExpertPlan& plan) {
  LYNX_CHECK(plan.row_kept.size() == sums.size(), "a plan has the rows of its step");
  for (std::size_t row = 0; row < sums.size(); ++row) {
    sums[row].remapped += used_slots(plan, row) - plan.row_kept[row];
    sums[row].mass_q24 += plan.row_mass_q24[row];
  }
}

}  // namespace

void CpuBackend::collect(StepResult& result, const RoutingPlans& plans) {
  result.samples.assign(step_.batch.logit_rows.size(), {});  // the host samples
  std::swap(result.logits, step_.logits);
  result.computed_rows = static_cast<std::uint32_t>(step_.batch.tokens.size());
  result.layers.clear();
  for (const ExpertPlan& plan : static_cast<const CpuPlans&>(plans).layers)
    result.layers.push_back(plan.stats);
  result.routing.assign(step_.batch.row_routing ? step_.batch.tokens.size() : 0, {});
  if (step_.batch.row_routing)
    for (const ExpertPlan& plan : static_cast<const CpuPlans&>(plans).layers) add_rows(result.routing, plan);
}

}  // namespace lynx
