// The weights of a Qwen3-MoE model on a backend, and how they are named in a Hugging Face folder.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "services/engine/model.h"
#include "services/engine/tensor_source.h"

namespace lynx {

struct LayerWeights {
  Tensor attention_norm;           // [1, H]
  std::unique_ptr<Matrix> qkv;     // [(Hq + 2 Hkv) D, H]: q, k and v stacked
  Tensor q_norm, k_norm;           // [1, D]
  std::unique_ptr<Matrix> o;       // [H, Hq D]
  Tensor mlp_norm;                 // [1, H]
  std::unique_ptr<Matrix> router;  // [E, H]
  std::unique_ptr<ExpertWeights> experts;
};

struct MoeWeights {
  Tensor embedding;  // [V, H] bf16
  std::vector<LayerWeights> layers;
  Tensor final_norm;                // [1, H]
  std::unique_ptr<Matrix> lm_head;  // [V, H]
  Tensor rope;                      // [context, D], see RopeTable
};

// Throws std::runtime_error "file: tensor: reason".
MoeWeights load_weights(const ModelConfig& config, TensorSource& source, Backend& backend);

}  // namespace lynx
