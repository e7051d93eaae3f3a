// The exact model on a set of documents: what every policy is compared with. Holds the KV cache of the whole
// documents, which policies then overwrite behind the prefix, and the logits of every position there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loadtest/quality/documents.h"
#include "services/engine/kv_cache.h"
#include "services/engine/model.h"

namespace lynx {

struct ExactDocument {
  std::vector<BlockId> blocks;
  std::vector<float> logits;       // [measured, vocab] of the tokens before positions prefix.. length-1
  std::vector<float> confidence;   // [measured] the first expert's share of its row's top-k, mean over layers
  std::vector<std::uint16_t> top;  // [layers, length, k] experts by falling logit
};

class ExactRun {
 public:
  // Measured: the predictions of tokens prefix .. length - 1, made by the rows prefix - 1 .. length - 2.
  ExactRun(Model& model, std::vector<Document> documents, std::uint32_t prefix);

  void restore_prefix();  // after a run that wrote over it

  Model& model() { return model_; }
  const ModelConfig& model_config() const { return model_.config(); }
  KvCache& cache() { return cache_; }
  const std::vector<Document>& documents() const { return documents_; }
  const ExactDocument& exact(std::size_t document) const { return exact_[document]; }
  std::uint32_t length() const { return length_; }
  std::uint32_t first_row() const { return prefix_ - 1; }
  std::uint32_t measured() const { return length_ - prefix_; }
  std::span<const float> logits(std::size_t document, std::uint32_t step) const {
    const std::size_t vocab = model_.config().vocab;
    return std::span(exact_[document].logits).subspan(step * vocab, vocab);
  }

 private:
  void compute(std::size_t document);

  Model& model_;
  std::vector<Document> documents_;
  const std::uint32_t prefix_, length_;
  KvCache cache_;
  std::vector<ExactDocument> exact_;
  StepResult result_;
};

}  // namespace lynx
