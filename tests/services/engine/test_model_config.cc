#include "services/engine/model_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lynx {
namespace {

// As published for Qwen3-30B-A3B by transformers 4.
nlohmann::json qwen3_30b() {
  return nlohmann::json::parse(R"({
    "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
    "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48,
    "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
    "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null,
    "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false,
    "vocab_size": 151936})");
}

ModelConfig parse(const nlohmann::json& json, const std::string& generation = "") {
  return parse_model_config(json.dump(), "config.json", generation, "generation_config.json");
}

std::string error_of(const nlohmann::json& json, const std::string& generation = "") {
  try {
    (void)parse(json, generation);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ModelConfig, ReadsAPublishedConfig) {
  const ModelConfig config = parse(qwen3_30b());
  EXPECT_EQ(config.architecture, "Qwen3MoeForCausalLM");
  EXPECT_EQ(config.vocab, 151936U);
  EXPECT_EQ(config.hidden, 2048U);
  EXPECT_EQ(config.layers, 48U);
  EXPECT_EQ(config.q_heads, 32U);
  EXPECT_EQ(config.kv_heads, 4U);
  EXPECT_EQ(config.head_dim, 128U);
  EXPECT_EQ(config.moe_intermediate, 768U);
  EXPECT_EQ(config.router.experts, 128U);
  EXPECT_EQ(config.router.top_k, 8U);
  EXPECT_TRUE(config.router.norm_topk_prob);
  EXPECT_EQ(config.rms_eps, 1e-6F);
  EXPECT_EQ(config.rope_theta, 1e6F);
  EXPECT_FALSE(config.tie_embeddings);
  EXPECT_EQ(config.context, 40960U);
  EXPECT_EQ(config.eos, std::vector<TokenId>{151645});
  EXPECT_EQ(config.expert_bytes(), 3U * 2048 * 768 * 2);
}

TEST(ModelConfig, ReadsTheNamesOfTransformers5) {
  nlohmann::json json = qwen3_30b();
  json.erase("rope_theta");
  json.erase("rope_scaling");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  json["num_local_experts"] = json["num_experts"];
  json.erase("num_experts");
  EXPECT_EQ(parse(json).rope_theta, 5e5F);
  EXPECT_EQ(parse(json).router.experts, 128U);
}

TEST(ModelConfig, GenerationConfigDecidesTheEnd) {
  EXPECT_EQ(parse(qwen3_30b(), R"({"eos_token_id": [1, 2]})").eos, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(parse(qwen3_30b(), R"({"max_new_tokens": 5})").eos, std::vector<TokenId>{151645});
}

TEST(ModelConfig, RefusesWhatItCannotCompute) {
  struct {
    std::string patch, message;
  } const cases[] = {
      {R"({"architectures": ["MixtralForCausalLM"]})",
       "config.json: architectures: 'MixtralForCausalLM' is not supported"},
      {R"({"architectures": []})", "config.json: architectures: expected a list of one name"},
      {R"({"model_type": "qwen2_moe"})", "config.json: model_type: 'qwen2_moe' is not supported"},
      {R"({"hidden_act": "gelu"})", "config.json: hidden_act: 'gelu' is not supported"},
      {R"({"attention_bias": true})", "config.json: attention_bias: true is not supported"},
      {R"({"use_sliding_window": true})", "config.json: use_sliding_window: true is not supported"},
      {R"({"quantization_config": {"bits": 4}})", "config.json: quantization_config: quantized"},
      {R"({"decoder_sparse_step": 2})", "config.json: decoder_sparse_step: only 1"},
      {R"({"mlp_only_layers": [0]})", "config.json: mlp_only_layers: dense layers"},
      {R"({"rope_scaling": {"type": "yarn"}})", "config.json: rope_scaling: scaled rotary"},
      {R"({"rope_parameters": {"rope_type": "yarn"}})", "config.json: rope_parameters.rope_type: 'yarn'"},
      {R"({"rope_parameters": {"factor": 2}})", "config.json: rope_parameters.factor: not supported"},
      {R"({"rope_theta": -1})", "config.json: rope_theta: expected a number above 1"},
      {R"({"rms_norm_eps": 0})", "config.json: rms_norm_eps: expected a number above 0"},
      {R"({"hidden_size": 0})", "config.json: hidden_size: expected a whole number from 1"},
      {R"({"hidden_size": "2048"})", "config.json: hidden_size: expected a whole number"},
      {R"({"hidden_size": 2040})", "config.json: hidden_size: must be a multiple of 16"},
      {R"({"vocab_size": 1e30})", "config.json: vocab_size: expected a whole number"},
      {R"({"head_dim": 20})", "config.json: head_dim: must be a multiple of 16"},
      {R"({"num_key_value_heads": 5})", "config.json: num_key_value_heads: must divide"},
      {R"({"num_experts": 1025})", "config.json: num_experts: expected a whole number from 1 to 1024"},
      {R"({"num_experts_per_tok": 129})",
       "config.json: num_experts_per_tok: expected a whole number from 1 to 128"},
      {R"({"norm_topk_prob": 1})", "config.json: norm_topk_prob: expected true or false"},
      {R"({"eos_token_id": 151936})", "config.json: eos_token_id: expected token ids below vocab_size"},
      {R"({"eos_token_id": [-1]})", "config.json: eos_token_id: expected token ids below vocab_size"},
  };
  for (const auto& c : cases) {
    nlohmann::json json = qwen3_30b();
    json.update(nlohmann::json::parse(c.patch));
    const std::string message = error_of(json);
    EXPECT_EQ(message.substr(0, c.message.size()), c.message) << message;
  }
  EXPECT_EQ(error_of(qwen3_30b(), "[]"), "generation_config.json: not a JSON object");
  EXPECT_NE(error_of(qwen3_30b(), "{").find("generation_config.json: "), std::string::npos);
}

TEST(ModelConfig, MissingKeysAreNamed) {
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "moe_intermediate_size", "num_experts_per_tok", "max_position_embeddings"}) {
    nlohmann::json json = qwen3_30b();
    json.erase(key);
    EXPECT_EQ(error_of(json), std::string("config.json: ") + key + ": missing");
  }
}

TEST(ModelConfig, DeepNestingIsRefusedNotFollowed) {
  const std::string deep(100'000, '[');
  EXPECT_THROW(parse_model_config("{\"hidden_size\":" + deep, "config.json", "", ""), std::runtime_error);
}

}  // namespace
}  // namespace lynx
