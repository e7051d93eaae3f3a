// What the engine asks of a model: one forward pass over the rows of several sequences with a paged KV cache.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/kv/page_layout.h"
#include "common/text/token.h"
#include "kernels/lynx/policy.h"

namespace lynx {

struct ModelConfig {         // from config.json and generation_config.json
  std::string architecture;  // Qwen3MoeForCausalLM
  std::uint32_t vocab = 0, hidden = 0, layers = 0, q_heads = 0, kv_heads = 0, head_dim = 0;
  std::uint32_t moe_intermediate = 0;
  RouterShape router;
  float rms_eps = 1e-6F;
  float rope_theta = 10000;
  bool tie_embeddings = false;
  std::uint32_t context = 0;  // max_position_embeddings
  std::vector<TokenId> eos;

  std::size_t expert_bytes() const;  // of one expert in one layer, as stored (bf16): gate, up and down
};

// Rows of one sequence are consecutive in the batch and consecutive in position.
struct SequenceRows {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t context = 0;        // tokens of the sequence already in the cache: position of the first row
  std::span<const BlockId> blocks;  // its block table; covers context + rows tokens
};

struct ForwardBatch {
  std::span<const TokenId> tokens;            // [T]
  std::span<const SequenceRows> sequences;    // cover rows 0..T-1
  std::span<const std::uint32_t> logit_rows;  // [R] rows whose logits are wanted, ascending
  std::span<const std::uint8_t> exact_rows;   // [T] or empty: rows that keep their full top-k
  RoutePolicy policy;                         // kOff in prefill, always
};

struct ForwardResult {
  std::vector<float> logits;      // [R, vocab]
  std::vector<PlanStats> layers;  // [layers]
};

class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void layer_done(
      std::uint32_t layer) = 0;  // the KV of this batch's rows is in the cache for this layer
};

class KvCache;  // services/engine/kv_cache.h

// One engine thread calls forward; a row's result does not depend on the other rows of the batch when policy
// is kOff.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual std::uint64_t fingerprint() const = 0;  // config and weights
  virtual void forward(const ForwardBatch& batch, KvCache& cache, ForwardResult& result,
                       LayerObserver* observer) = 0;
};

}  // namespace lynx
