#include "loadtest/quality/exact_run.h"

#include <numeric>

#include "common/core/check.h"
#include "loadtest/quality/lab_cache.h"

namespace lynx {

ExactRun::ExactRun(Model& model, std::vector<Document> documents, std::uint32_t prefix)
    : model_(model),
      documents_(std::move(documents)),
      prefix_(prefix),
      length_(static_cast<std::uint32_t>(documents_.at(0).tokens.size())),
      cache_(lab_layout(model, static_cast<std::uint32_t>(documents_.size()), length_)),
      exact_(documents_.size()) {
  LYNX_CHECK(prefix_ > 0 && prefix_ < length_, "a prefix inside the documents");
  const auto each = static_cast<std::uint32_t>(cache_.layout().blocks / documents_.size());
  for (std::uint32_t d = 0; d < documents_.size(); ++d) {
    exact_[d].blocks.resize(each);
    std::iota(exact_[d].blocks.begin(), exact_[d].blocks.end(), d * each);
    compute(d);
  }
}

void ExactRun::compute(std::size_t document) {
  ExactDocument& out = exact_[document];
  const auto& tokens = documents_[document].tokens;
  const std::uint32_t rows = length_ - 1;
  const SequenceRows sequence{0, rows, 0, out.blocks};
  std::vector<std::uint32_t> wanted(measured());
  std::iota(wanted.begin(), wanted.end(), first_row());
  StepBatch batch;
  batch.tokens = std::span(tokens).first(rows);
  batch.sequences = {&sequence, 1};
  batch.logit_rows = wanted;
  model_.forward(batch, cache_, result_, nullptr);
  ;
  out.logits = result_.logits;
  const ModelConfig& config = model_.config();
  const std::uint32_t k = config.router.top_k;
  out.confidence.assign(measured(), 0);
  out.top.clear();
  ExpertPlan plan;
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    model_.read_plan(layer, plan);
    LYNX_CHECK(plan.experts.size() == std::size_t{rows} * k, "a plan of every row");
    for (const std::uint32_t expert : plan.experts) out.top.push_back(static_cast<std::uint16_t>(expert));
    for (std::uint32_t i = 0; i < measured(); ++i) {
      const auto weights = std::span(plan.weights).subspan(std::size_t{first_row() + i} * k, k);
      const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
      // One expert alone has no share; its probability is the confidence then, where the model shows it.
      out.confidence[i] += (k > 1 ? weights[0] / sum : weights[0]) / static_cast<float>(config.layers);
    }
  }
}

void ExactRun::restore_prefix() {
  for (std::size_t d = 0; d < documents_.size(); ++d) {
    const SequenceRows sequence{0, first_row(), 0, exact_[d].blocks};
    StepBatch batch;
    batch.tokens = std::span(documents_[d].tokens).first(first_row());
    batch.sequences = {&sequence, 1};
    model_.forward(batch, cache_, result_, nullptr);
    ;
  }
}

}  // namespace lynx
