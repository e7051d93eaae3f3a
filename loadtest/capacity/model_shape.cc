#include "loadtest/capacity/model_shape.h"

#include <algorithm>
#include <filesystem>

#include "services/engine/model_config.h"

namespace lynx {
namespace {

constexpr double kKvBytesPerValue = 2;       // bf16
constexpr std::uint32_t kContext = 1 << 15;  // that all published shapes take

double attention_weights(const ModelShape& m) {
  const double q = double(m.q_heads) * m.head_dim, kv = double(m.kv_heads) * m.head_dim;
  return m.hidden * (2 * q + 2 * kv);
}

double shared_weights(const ModelShape& m) { return 3.0 * m.hidden * m.shared_width; }

ModelShape shape_of(const ModelConfig& config, const std::string& name) {
  return {.name = name,
          .layers = config.layers,
          .hidden = config.hidden,
          .vocab = config.vocab,
          .q_heads = config.q_heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .experts = config.router.experts,
          .top_k = config.router.top_k,
          .expert_width = config.moe_intermediate};
}

Result<ModelShape> read_shape(const std::string& folder) {
  try {
    return shape_of(read_model_config(folder), folder);
  } catch (const std::exception& e) {
    return Error{ErrorCode::kInvalidArgument, e.what()};
  }
}

}  // namespace

double ModelShape::expert_bytes() const { return 3.0 * hidden * expert_width * bytes_per_weight; }

double ModelShape::dense_bytes() const {
  const double per_layer = attention_weights(*this) + shared_weights(*this) + double(hidden) * experts;
  return (layers * per_layer + double(hidden) * vocab) * bytes_per_weight;
}

double ModelShape::weight_bytes() const {
  return dense_bytes() + double(hidden) * vocab * bytes_per_weight +
         double(layers) * experts * expert_bytes();
}

double ModelShape::kv_bytes_per_token() const {
  const double values = kv_values > 0 ? kv_values : 2.0 * kv_heads * head_dim;
  return layers * values * kKvBytesPerValue;
}

double ModelShape::flops_per_token() const {
  const double per_layer = attention_weights(*this) + shared_weights(*this) + double(hidden) * experts +
                           3.0 * hidden * expert_width * top_k;
  return 2 * layers * per_layer;  // the head is computed once per prompt, not per token
}

const std::vector<ModelShape>& known_model_shapes() {
  static const std::vector<ModelShape> shapes{
      {.name = "qwen3-30b-a3b",
       .layers = 48,
       .hidden = 2048,
       .vocab = 151936,
       .q_heads = 32,
       .kv_heads = 4,
       .head_dim = 128,
       .experts = 128,
       .top_k = 8,
       .expert_width = 768},
      {.name = "qwen2-57b-a14b",
       .layers = 28,
       .hidden = 3584,
       .vocab = 151936,
       .q_heads = 28,
       .kv_heads = 4,
       .head_dim = 128,
       .experts = 64,
       .top_k = 8,
       .expert_width = 2560,
       .shared_width = 20480},
      {.name = "mixtral-8x7b",
       .layers = 32,
       .hidden = 4096,
       .vocab = 32000,
       .q_heads = 32,
       .kv_heads = 8,
       .head_dim = 128,
       .experts = 8,
       .top_k = 2,
       .expert_width = 14336},
      {.name = "deepseek-v2-lite",
       .layers = 27,
       .hidden = 2048,
       .vocab = 102400,
       .q_heads = 16,
       .kv_heads = 16,
       .head_dim = 128,
       .experts = 64,
       .top_k = 6,
       .expert_width = 1408,
       .shared_width = 2816,
       .kv_values = 576},
  };
  return shapes;
}

const ModelShape* published_shape(const std::string& name) {
  const auto& known = known_model_shapes();
  const auto at = std::ranges::find(known, name, &ModelShape::name);
  return at == known.end() ? nullptr : &*at;
}

Result<ModelConfig> runnable_config(const ModelShape& shape) {
  if (shape.kv_values > 0)
    return Error{ErrorCode::kInvalidArgument, shape.name + ": its compressed KV is not computed here"};
  return ModelConfig{.architecture = "Qwen3MoeForCausalLM",
                     .vocab = shape.vocab,
                     .hidden = shape.hidden,
                     .layers = shape.layers,
                     .q_heads = shape.q_heads,
                     .kv_heads = shape.kv_heads,
                     .head_dim = shape.head_dim,
                     .moe_intermediate = shape.expert_width,
                     .router = {.experts = shape.experts, .top_k = shape.top_k},
                     .rope_theta = 1e6F,
                     .context = kContext,
                     .eos = {}};
}

Result<ModelShape> find_model_shape(const std::string& name) {
  if (const ModelShape* shape = published_shape(name)) return *shape;
  if (std::filesystem::exists(std::filesystem::path(name) / "config.json")) return read_shape(name);
  std::string names;
  for (const ModelShape& shape : known_model_shapes()) names += " " + shape.name;
  return Error{ErrorCode::kInvalidArgument,
               "'" + name + "' is neither a folder with a config.json nor one of" + names};
}

}  // namespace lynx
