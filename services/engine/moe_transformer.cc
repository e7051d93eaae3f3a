#include "services/engine/moe_transformer.h"

#include <algorithm>
#include <bit>

#include "common/core/check.h"
#include "common/core/log.h"
#include "services/engine/fingerprint.h"
#include "services/engine/kv_cache.h"
#include "services/engine/model_config.h"
#include "services/engine/weights.h"

namespace lynx {
namespace {

// Activations of one step; grow to the largest batch seen and are then reused.
struct Activations {
  Tensor hidden;    // [T, H] the residual stream
  Tensor normed;    // [T, H]
  Tensor qkv;       // [T, (Hq + 2 Hkv) D]
  Tensor attended;  // [T, Hq D]
  Tensor router;    // [T, E]
  Tensor last;      // [R, H]
  Tensor logits;    // [R, V]
};

class MoeTransformer final : public Model {
 public:
  MoeTransformer(const ModelConfig& config, TensorSource& source, std::unique_ptr<Backend> backend)
      : config_(config), backend_(std::move(backend)), weights_(load_weights(config, source, *backend_)) {
    Fingerprint hash;
    for (const std::uint32_t size :
         {config.vocab, config.hidden, config.layers, config.q_heads, config.kv_heads, config.head_dim,
          config.moe_intermediate, config.router.experts, config.router.top_k,
          std::uint32_t{config.router.norm_topk_prob}, config.context,
          std::bit_cast<std::uint32_t>(config.rms_eps), std::bit_cast<std::uint32_t>(config.rope_theta)}) {
      hash.add(size);
    }
    hash.add(config.architecture);
    hash.add(source.fingerprint());
    fingerprint_ = hash.value();
  }

  const ModelConfig& config() const override { return config_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  void forward(const ForwardBatch& batch, KvCache& cache, ForwardResult& result,
               LayerObserver* observer) override;

 private:
  void prepare(const ForwardBatch& batch, const PageLayout& layout);

  const ModelConfig config_;
  const std::unique_ptr<Backend> backend_;
  const MoeWeights weights_;
  std::uint64_t fingerprint_ = 0;

  Activations act_;
  std::vector<std::uint32_t> positions_;  // [T]
  std::vector<KvSequence> sequences_;
  std::vector<std::uint8_t> live_;  // [T] ones: no padding rows here
  ExpertPlan plan_;
};

void MoeTransformer::forward(const ForwardBatch& batch, KvCache& cache, ForwardResult& result,
                             LayerObserver* observer) {
  prepare(batch, cache.layout());
  const auto t = static_cast<std::uint32_t>(batch.tokens.size());
  const auto r = static_cast<std::uint32_t>(batch.logit_rows.size());
  const std::uint32_t q_size = config_.q_heads * config_.head_dim;
  const std::uint32_t kv_size = config_.kv_heads * config_.head_dim;
  const float eps = config_.rms_eps;
  result.layers.resize(config_.layers);
  result.logits.resize(std::size_t{r} * config_.vocab);
  const RopeTable rope{weights_.rope.view};

  const TensorView x = act_.hidden.view.first_rows(t);           // [T, H]
  const TensorView normed = act_.normed.view.first_rows(t);      // [T, H]
  const TensorView qkv = act_.qkv.view.first_rows(t);            // [T, (Hq + 2 Hkv) D]
  const TensorView q = qkv.columns(0, q_size);                   // [T, Hq D]
  const TensorView k = qkv.columns(q_size, kv_size);             // [T, Hkv D]
  const TensorView v = qkv.columns(q_size + kv_size, kv_size);   // [T, Hkv D]
  const TensorView attended = act_.attended.view.first_rows(t);  // [T, Hq D]
  const TensorView router = act_.router.view.first_rows(t);      // [T, E]

  backend_->embed(x, batch.tokens, weights_.embedding.view);
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    const LayerWeights& w = weights_.layers[layer];
    const PagedKv kv{cache.bytes().data(), &cache.layout(), layer, sequences_};

    backend_->rms_norm(normed, x, w.attention_norm.view, eps);
    backend_->matmul(qkv, normed, *w.qkv);
    backend_->norm_rope(q, w.q_norm.view, eps, rope, positions_);
    backend_->norm_rope(k, w.k_norm.view, eps, rope, positions_);
    backend_->write_kv(kv, k, v);
    if (observer != nullptr) {
      backend_->synchronize();
      observer->layer_done(layer);
    }
    backend_->paged_attention(attended, q, kv);
    backend_->matmul_add(x, attended, *w.o);

    backend_->rms_norm(normed, x, w.mlp_norm.view, eps);
    backend_->matmul(router, normed, *w.router);
    backend_->route(plan_, router, config_.router, batch.policy, {live_, batch.exact_rows});
    result.layers[layer] = plan_.stats;
    backend_->experts_add(x, normed, *w.experts, plan_);
  }
  if (r == 0) return;

  const TensorView last = act_.last.view.first_rows(r);      // [R, H]
  const TensorView logits = act_.logits.view.first_rows(r);  // [R, V]
  backend_->gather_rows(last, x, batch.logit_rows);
  backend_->rms_norm(last, last, weights_.final_norm.view, eps);
  backend_->matmul(logits, last, *weights_.lm_head);
  backend_->read_back(result.logits, logits);
}

// Checks the batch against the cache, and makes room for it.
void MoeTransformer::prepare(const ForwardBatch& batch, const PageLayout& layout) {
  const auto rows = static_cast<std::uint32_t>(batch.tokens.size());
  LYNX_CHECK(rows > 0, "a batch has rows");
  LYNX_CHECK(layout.layers == config_.layers && layout.kv_heads == config_.kv_heads &&
                 layout.head_dim == config_.head_dim,
             "the KV cache belongs to another model");
  LYNX_CHECK(batch.exact_rows.empty() || batch.exact_rows.size() == rows, "exact_rows has one flag per row");
  positions_.clear();
  sequences_.clear();
  for (const SequenceRows& s : batch.sequences) {
    LYNX_CHECK(s.first_row == positions_.size(), "the sequences cover the rows in order");
    LYNX_CHECK(s.context + s.rows <= config_.context, "a sequence grew past the model's context");
    for (std::uint32_t i = 0; i < s.rows; ++i) positions_.push_back(s.context + i);
    sequences_.push_back({s.first_row, s.rows, s.context, s.blocks});
  }
  LYNX_CHECK(positions_.size() == rows, "the sequences cover every row");
  live_.assign(rows, 1);

  const auto grow = [&](Tensor& tensor, std::uint32_t needed, std::uint32_t cols) {
    if (tensor.view.rows >= needed) return;
    tensor = {};  // first free, then take
    tensor = backend_->allocate(Dtype::kF32, std::max(needed, 16U), cols);
  };
  grow(act_.hidden, rows, config_.hidden);
  grow(act_.normed, rows, config_.hidden);
  grow(act_.qkv, rows, (config_.q_heads + 2 * config_.kv_heads) * config_.head_dim);
  grow(act_.attended, rows, config_.q_heads * config_.head_dim);
  grow(act_.router, rows, config_.router.experts);
  const auto logit_rows = static_cast<std::uint32_t>(batch.logit_rows.size());
  grow(act_.last, logit_rows, config_.hidden);
  grow(act_.logits, logit_rows, config_.vocab);
}

}  // namespace

PageLayout page_layout(const ModelConfig& config, std::uint32_t blocks, std::uint32_t block_tokens,
                       KvDtype dtype) {
  return {.layers = config.layers,
          .blocks = blocks,
          .block_tokens = block_tokens,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .dtype = dtype};
}

std::unique_ptr<Model> make_model(const ModelConfig& config, TensorSource& source,
                                  std::unique_ptr<Backend> backend) {
  return std::make_unique<MoeTransformer>(config, source, std::move(backend));
}

std::unique_ptr<Model> load_model(const std::string& folder, const ModelOptions& options) {
  const ModelConfig config = read_model_config(folder);
  std::unique_ptr<Backend> backend = make_backend(options.backend);
  log::info("model {}: {} layers, {} experts, top-{}, on {}", folder, config.layers, config.router.experts,
            config.router.top_k, backend->description());
  switch (options.load_format) {
    case LoadFormat::kSafetensors: {
      CheckpointFolder source(folder);
      return make_model(config, source, std::move(backend));
    }
    case LoadFormat::kDummy: {
      DummyTensors source(options.dummy_seed);
      return make_model(config, source, std::move(backend));
    }
  }
  return nullptr;
}

}  // namespace lynx
