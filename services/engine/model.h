// What the engine asks of a model: one forward pass over the rows of several sequences with a paged KV cache.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/kv/page_layout.h"
#include "common/text/token.h"
#include "kernels/lynx/policy.h"
#include "kernels/step.h"

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

class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void layer_done(
      std::uint32_t layer) = 0;  // the KV of this batch's rows is in the cache for this layer
};

class KvCache;  // services/engine/kv_cache.h

struct ModelTraits {
  bool overlaps = false;           // launch returns while a device works
  std::string device;              // "cpu avx512, 2 threads"
  std::uint64_t device_bytes = 0;  // of a device's own memory that are held
};

// One engine thread calls. A step is launched, then collected; what the batch points to and the observer stay
// until then, and the observer is called in either. A row's result does not depend on the other rows of the
// batch when the policy is kOff.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual std::uint64_t fingerprint() const = 0;  // config and weights
  virtual ModelTraits traits() const = 0;

  // Takes what device memory the cache needs; a cache not attached is attached by its first step.
  virtual void attach(KvCache& cache) = 0;
  // Blocks that somebody else wrote: to be called before the first step that reads them.
  virtual void import_kv(KvCache& cache, std::span<const BlockId> blocks) = 0;

  virtual void launch(const StepBatch& batch, KvCache& cache, LayerObserver* observer) = 0;
  virtual void collect(StepResult& result) = 0;
  void forward(const StepBatch& batch, KvCache& cache, StepResult& result, LayerObserver* observer) {
    launch(batch, cache, observer);
    collect(result);
  }

  // For laboratories: the plan of one layer of the step collected last.
  virtual void read_plan(std::uint32_t layer, ExpertPlan& plan) = 0;
};

}  // namespace lynx
