#include "services/engine/model_config.h"

#include <filesystem>
#include <stdexcept>

#include "common/core/log.h"
#include "common/core/read_file.h"
#include "services/engine/json_object.h"

namespace lynx {
namespace {

constexpr std::uint32_t kMaxExtent = 1U
                                     << 20;  // of vocabulary, hidden size, context: far above any real model
constexpr std::uint32_t kMaxLayers = 1024;
constexpr std::uint32_t kLaneMultiple = 16;  // vector width that the kernels assume of every row

// Keys that change training or housekeeping, not the forward pass.
constexpr const char* kHarmless[] = {
    "_name_or_path",     "attention_dropout", "bos_token_id",         "dtype",        "initializer_range",
    "intermediate_size", "max_window_layers", "output_router_logits", "pad_token_id", "router_aux_loss_coef",
    "sliding_window",    "torch_dtype",       "transformers_version", "use_cache"};

void require_text(const JsonObject& json, const std::string& key, const std::string& wanted) {
  const std::string got = json.text(key, wanted);
  if (got != wanted) json.fail(key, "'" + got + "' is not supported, only '" + wanted + "'");
}

void require_false(const JsonObject& json, const std::string& key) {
  if (json.boolean(key, false)) json.fail(key, "true is not supported");
}

void check_architecture(const JsonObject& json, ModelConfig& config) {
  const nlohmann::json* names = json.find("architectures");
  if (names == nullptr || !names->is_array() || names->size() != 1 || !names->front().is_string()) {
    json.fail("architectures", "expected a list of one name");
  }
  config.architecture = names->front().get<std::string>();
  if (config.architecture != "Qwen3MoeForCausalLM") {
    json.fail("architectures", "'" + config.architecture + "' is not supported, only 'Qwen3MoeForCausalLM'");
  }
  require_text(json, "model_type", "qwen3_moe");
  require_text(json, "hidden_act", "silu");
  require_false(json, "attention_bias");
  require_false(json, "use_sliding_window");
  if (json.has("quantization_config"))
    json.fail("quantization_config", "quantized weights are not supported");
  if (json.number("decoder_sparse_step", 1) != 1)
    json.fail("decoder_sparse_step", "only 1: experts in every layer");
  const nlohmann::json* dense = json.find("mlp_only_layers");
  if (dense != nullptr && !dense->empty()) json.fail("mlp_only_layers", "dense layers are not supported");
}

// rope_theta and rope_scaling stand at the top (transformers 4) or in rope_parameters (transformers 5).
float read_rope_theta(const JsonObject& json) {
  if (json.has("rope_scaling")) json.fail("rope_scaling", "scaled rotary embeddings are not supported");
  double theta = json.number("rope_theta", 10000);
  if (json.has("rope_parameters")) {
    const JsonObject rope = json.object("rope_parameters");
    require_text(rope, "rope_type", "default");
    theta = rope.number("rope_theta", theta);
    for (const std::string& key : rope.unread()) rope.fail(key, "not supported");
  }
  if (!(theta > 1 && theta < 1e12)) json.fail("rope_theta", "expected a number above 1");
  return static_cast<float>(theta);
}

void check_multiple(const JsonObject& json, const std::string& key, std::uint32_t value) {
  if (value % kLaneMultiple != 0) json.fail(key, "must be a multiple of 16, got " + std::to_string(value));
}

void read_sizes(const JsonObject& json, ModelConfig& config) {
  config.vocab = json.count("vocab_size", kMaxExtent);
  config.hidden = json.count("hidden_size", kMaxExtent);
  config.layers = json.count("num_hidden_layers", kMaxLayers);
  config.q_heads = json.count("num_attention_heads", 1024);
  config.kv_heads =
      json.has("num_key_value_heads") ? json.count("num_key_value_heads", 1024) : config.q_heads;
  config.head_dim = json.has("head_dim") ? json.count("head_dim", 256) : config.hidden / config.q_heads;
  config.moe_intermediate = json.count("moe_intermediate_size", kMaxExtent);
  config.context = json.count("max_position_embeddings", kMaxExtent);
  check_multiple(json, "hidden_size", config.hidden);
  check_multiple(json, "moe_intermediate_size", config.moe_intermediate);
  check_multiple(json, "head_dim", config.head_dim);
  if (config.head_dim == 0 || config.head_dim > 256) json.fail("head_dim", "expected at most 256");
  if (config.q_heads % config.kv_heads != 0 || config.q_heads / config.kv_heads > 64) {
    json.fail("num_key_value_heads", "must divide num_attention_heads, into at most 64 query heads each");
  }
}

void read_router(const JsonObject& json, RouterShape& router) {
  const char* experts_key = json.has("num_experts") ? "num_experts" : "num_local_experts";
  router.experts = json.count(experts_key, kMaxExperts);
  router.top_k = json.count("num_experts_per_tok", router.experts);
  router.norm_topk_prob = json.boolean("norm_topk_prob", false);
  router.kind = RouterKind::kSoftmax;
}

std::vector<TokenId> read_eos(const JsonObject& json, std::uint32_t vocab) {
  const nlohmann::json* value = json.find("eos_token_id");
  if (value == nullptr) return {};
  std::vector<TokenId> out;
  const auto take = [&](const nlohmann::json& id) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab) {
      json.fail("eos_token_id", "expected token ids below vocab_size, got " + id.dump());
    }
    out.push_back(id.get<TokenId>());
  };
  if (value->is_array()) {
    for (const nlohmann::json& id : *value) take(id);
  } else {
    take(*value);
  }
  return out;
}

}  // namespace

std::size_t ModelConfig::expert_bytes() const {
  return std::size_t{3} * hidden * moe_intermediate * sizeof(std::uint16_t);
}

ModelConfig parse_model_config(const std::string& text, const std::string& name,
                               const std::string& generation, const std::string& generation_name) {
  const JsonObject json(text, name);
  ModelConfig config;
  check_architecture(json, config);
  read_sizes(json, config);
  read_router(json, config.router);
  config.rms_eps = static_cast<float>(json.number("rms_norm_eps", 1e-6));
  if (!(config.rms_eps > 0)) json.fail("rms_norm_eps", "expected a number above 0");
  config.rope_theta = read_rope_theta(json);
  config.tie_embeddings = json.boolean("tie_word_embeddings", false);
  config.eos = read_eos(json, config.vocab);
  if (!generation.empty()) {
    std::vector<TokenId> eos = read_eos(JsonObject(generation, generation_name), config.vocab);
    if (!eos.empty()) config.eos = std::move(eos);
  }
  for (const char* key : kHarmless) json.ignore(key);
  for (const std::string& key : json.unread()) log::warn("{}: {}: not known here, ignored", name, key);
  return config;
}

ModelConfig read_model_config(const std::string& folder) {
  const std::string name = folder + "/config.json";
  const std::string generation_name = folder + "/generation_config.json";
  const bool has_generation = std::filesystem::exists(generation_name);
  return parse_model_config(read_file(name), name, has_generation ? read_file(generation_name) : "",
                            generation_name);
}

}  // namespace lynx
