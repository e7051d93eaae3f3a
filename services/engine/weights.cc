#include "services/engine/weights.h"

#include <array>
#include <cmath>

namespace lynx {
namespace {

using Shape = std::vector<std::uint64_t>;

std::vector<ExpertTensors> expert_tensors(const ModelConfig& config, TensorSource& source,
                                          const std::string& mlp) {
  const Shape in = {config.moe_intermediate, config.hidden};
  const Shape out = {config.hidden, config.moe_intermediate};
  std::vector<ExpertTensors> experts(config.router.experts);
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const std::string name = mlp + "experts." + std::to_string(e) + ".";
    experts[e] = {source.tensor(name + "gate_proj.weight", in), source.tensor(name + "up_proj.weight", in),
                  source.tensor(name + "down_proj.weight", out)};
  }
  return experts;
}

LayerWeights load_layer(const ModelConfig& config, TensorSource& source, Backend& backend,
                        std::uint32_t index) {
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  const std::string attention = layer + "self_attn.";
  const std::uint64_t q = std::uint64_t{config.q_heads} * config.head_dim;
  const std::uint64_t kv = std::uint64_t{config.kv_heads} * config.head_dim;
  const auto norm = [&](const std::string& name, std::uint64_t size) {
    return backend.upload(source.tensor(name + ".weight", {size}), Dtype::kF32);
  };
  const auto matrix = [&](const std::string& name, std::uint64_t n, std::uint64_t k) {
    return backend.load_matrix(std::array{source.tensor(name + ".weight", {n, k})});
  };

  LayerWeights out;
  out.attention_norm = norm(layer + "input_layernorm", config.hidden);
  out.qkv = backend.load_matrix(std::array{source.tensor(attention + "q_proj.weight", {q, config.hidden}),
                                           source.tensor(attention + "k_proj.weight", {kv, config.hidden}),
                                           source.tensor(attention + "v_proj.weight", {kv, config.hidden})});
  out.q_norm = norm(attention + "q_norm", config.head_dim);
  out.k_norm = norm(attention + "k_norm", config.head_dim);
  out.o = matrix(attention + "o_proj", config.hidden, q);
  out.mlp_norm = norm(layer + "post_attention_layernorm", config.hidden);
  out.router = matrix(layer + "mlp.gate", config.router.experts, config.hidden);
  out.experts = backend.load_experts(expert_tensors(config, source, layer + "mlp."));
  return out;
}

// In f32 like the reference, whose angles it must equal even at the last position.
Tensor make_rope(const ModelConfig& config, Backend& backend) {
  const std::uint32_t half = config.head_dim / 2;
  std::vector<float> inverse(half);
  for (std::uint32_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    inverse[i] = 1.0F / std::pow(config.rope_theta, exponent);
  }
  std::vector<float> table(std::size_t{config.context} * config.head_dim);
  for (std::uint32_t position = 0; position < config.context; ++position) {
    float* row = table.data() + std::size_t{position} * config.head_dim;
    for (std::uint32_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * inverse[i];
      row[i] = std::cos(angle);
      row[half + i] = std::sin(angle);
    }
  }
  return backend.upload({.name = "rope",
                         .dtype = Dtype::kF32,
                         .shape = {config.context, config.head_dim},
                         .bytes = std::as_bytes(std::span(table)),
                         .owner = nullptr},
                        Dtype::kF32);
}

}  // namespace

MoeWeights load_weights(const ModelConfig& config, TensorSource& source, Backend& backend) {
  MoeWeights out;
  const HostTensor embedding = source.tensor("model.embed_tokens.weight", {config.vocab, config.hidden});
  out.embedding = backend.upload(embedding, Dtype::kBf16);
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    out.layers.push_back(load_layer(config, source, backend, layer));
  }
  out.final_norm = backend.upload(source.tensor("model.norm.weight", {config.hidden}), Dtype::kF32);
  const HostTensor head =
      config.tie_embeddings ? embedding : source.tensor("lm_head.weight", {config.vocab, config.hidden});
  out.lm_head = backend.load_matrix({&head, 1});
  out.rope = make_rope(config, backend);
  source.check_all_used();
  return out;
}

}  // namespace lynx
