// What the benchmarks of a model share: its flags, prompts in a cache of their own, and the bytes of a step.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "services/engine/kv_cache.h"
#include "services/engine/moe_transformer.h"

namespace CLI {
class App;
}

namespace lynx {

struct ModelFlags {
  std::string model = "deploy/model";  // a folder, or a published model's name
  std::string load_format = "safetensors";
  std::string kv_dtype = "f32";
  std::string router_logits;  // a recording to route decode steps by, or none
  std::string device = "cpu";
  unsigned threads = 2;

  void add_to(CLI::App& app);
  // rows, logit_rows: of the largest step. Throws std::runtime_error.
  std::unique_ptr<Model> load(std::uint32_t rows, std::uint32_t logit_rows) const;
  KvDtype kv() const { return kv_dtype == "bf16" ? KvDtype::kBf16 : KvDtype::kF32; }
};

// Sequences of random tokens, each with its own blocks.
class BenchBatch {
 public:
  BenchBatch(Model& model, KvDtype kv, std::uint32_t sequences, std::uint32_t max_tokens);

  // Appends random prompts of that length, exact routing, in chunks; returns the seconds spent in the model.
  double prefill(std::uint32_t tokens, std::uint32_t chunk);
  // The same, one step for the prompts of all sequences.
  double prefill_together(std::uint32_t tokens);
  // One greedy token for each sequence, sampled where the model samples; returns the seconds spent in the
  // model.
  double step(const RoutePolicy& policy);
  // Of the last step: from its start to where its work was handed over to a device. The device had nothing to
  // do for so long. On the CPU that is the whole step.
  double launch_seconds() const { return launch_seconds_; }

  const StepResult& result() const { return result_; }
  std::uint32_t context() const { return context_; }
  // Bytes that the last step read: dense weights, the active experts, and the keys and values of every
  // sequence.
  double step_bytes() const;

 private:
  double forward(const StepBatch& batch);

  Model& model_;
  KvCache cache_;
  std::vector<std::vector<BlockId>> blocks_;
  std::vector<TokenId> next_;  // last token of each sequence
  std::uint32_t context_ = 0;  // tokens of each sequence in the cache
  StepResult result_;
  double launch_seconds_ = 0;
};

}  // namespace lynx
