// The dimensions of published models, by name: what a capacity plan and benchmarks know of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "services/engine/model.h"

namespace lynx {

struct ModelShape {
  std::string name{};
  std::uint32_t layers = 0, hidden = 0, vocab = 0;
  std::uint32_t q_heads = 0, kv_heads = 0, head_dim = 0;
  std::uint32_t experts = 0, top_k = 0, expert_width = 0;
  std::uint32_t shared_width = 0;  // of the shared experts of a layer together; 0 = none
  std::uint32_t kv_values =
      0;  // cached per token and layer; 0 = 2 x kv_heads x head_dim (compressed KV has fewer)
  double bytes_per_weight = 2;

  double expert_bytes() const;  // one expert of one layer: gate, up, down
  double dense_bytes() const;   // what every step reads whatever it routes: attention, shared experts, head
  double weight_bytes() const;  // of the whole model, embeddings included
  double kv_bytes_per_token() const;
  double flops_per_token() const;  // forward, without attention over the context
};

// Published shapes by name (Hugging Face configurations): qwen3-30b-a3b, qwen2-57b-a14b, mixtral-8x7b,
// deepseek-v2-lite. Or a folder with a config.json.
Result<ModelShape> find_model_shape(const std::string& name_or_folder);
const std::vector<ModelShape>& known_model_shapes();
const ModelShape* published_shape(const std::string& name);  // null: none of that name

// The same dimensions as a model that the engine can run on random weights. It has no shared experts, which
// are left out; compressed KV is an error.
Result<ModelConfig> runnable_config(const ModelShape& shape);

}  // namespace lynx
