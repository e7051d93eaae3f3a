// Qwen3-MoE on a Backend. load_model is the way from a Hugging Face folder to a Model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "services/engine/model.h"
#include "services/engine/model_sizes.h"
#include "services/engine/tensor_source.h"

namespace lynx {

enum class LoadFormat : std::uint8_t {
  kSafetensors,
  kDummy,  // config.json and random weights: for speed work on models that are not there
};

// Router logits recorded from another model, for speed work: random weights have a random router, which
// spreads a batch over more experts than a trained one. Steps of up to `rows` rows route by them.
struct ReplayedLogits {
  std::uint32_t layers = 0;   // layer i of the model takes entry i mod layers
  std::uint32_t rows = 0;     // 0: nothing is replayed
  std::vector<float> values;  // [layers, rows, E]
};

struct ModelOptions {
  BackendOptions backend;
  LoadFormat load_format = LoadFormat::kSafetensors;
  std::uint64_t dummy_seed = 0;
  // Of the largest step that is to come: the buffers are made at load. A larger one makes them anew.
  std::uint32_t max_rows = 16;
  std::uint32_t max_logit_rows = 16;
  std::uint32_t max_context = kAnyContext;  // tokens of a sequence; the model's context, where that is less
  PolicyKind policy = PolicyKind::kOff;     // of the decode steps that are to come: refused now or not at all
  ReplayedLogits replay;
};

// Reads, checks and packs everything; the files are closed when it returns. Throws std::runtime_error "file:
// place: reason".
std::unique_ptr<Model> load_model(const std::string& folder, const ModelOptions& options = {});

std::unique_ptr<Model> make_model(const ModelConfig& config, TensorSource& source,
                                  std::unique_ptr<Backend> backend, const ModelOptions& options = {});

}  // namespace lynx
