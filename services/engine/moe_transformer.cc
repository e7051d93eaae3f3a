#include "services/engine/moe_transformer.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "common/core/check.h"
#include "common/core/log.h"
#include "services/engine/fingerprint.h"
#include "services/engine/kv_cache.h"
#include "services/engine/model_config.h"
#include "services/engine/weights.h"

namespace lynx {
namespace {

// Activations of one step, for the largest one. The input of a matrix product has the device's type, the rest
// is f32.
struct Activations {
  Tensor hidden;    // [T, H] the residual stream
  Tensor normed;    // [T, H] input of products
  Tensor qkv;       // [T, (Hq + 2 Hkv) D]
  Tensor attended;  // [T, Hq D] input of a product
  Tensor router;    // [T, E]
  Tensor last;      // [R, H] rows whose logits are wanted
  Tensor final;     // [R, H] input of the head
  Tensor logits;    // [R, V]
};

class MoeTransformer final : public Model {
 public:
  MoeTransformer(const ModelConfig& config, TensorSource& source, std::unique_ptr<Backend> backend,
                 const ModelOptions& options)
      : config_(config),
        policy_(options.policy),
        backend_(std::move(backend)),
        weights_(load_weights(config, source, *backend_)) {
    load_replay(options.replay);
    reserve(options.max_rows, options.max_logit_rows, options.max_context);
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

  ModelTraits traits() const override {
    return {backend_->overlaps(), backend_->description(), backend_->memory_held()};
  }

  void attach(KvCache& cache) override;
  void import_kv(KvCache& cache, std::span<const BlockId> blocks) override {
    attach(cache);
    backend_->import_kv(*cache.device(), blocks);
  }
  void launch(const StepBatch& batch, KvCache& cache, LayerObserver* observer) override;
  void collect(StepResult& result) override { backend_->collect(result, *plans_); }
  void read_plan(std::uint32_t layer, ExpertPlan& plan) override {
    backend_->read_plan(*plans_, layer, plan);
  }

 private:
  void load_replay(const ReplayedLogits& replay);
  void reserve(std::uint32_t rows, std::uint32_t logit_rows, std::uint32_t context);
  void make_room(const StepBatch& batch);
  void check(const StepBatch& batch) const;
  void forward_rows(const StepShape& shape);

  const ModelConfig config_;
  const PolicyKind policy_;
  const std::unique_ptr<Backend> backend_;
  const MoeWeights weights_;
  std::vector<Tensor> replayed_;  // [rows, E] each; empty but for benchmarks
  std::uint64_t fingerprint_ = 0;
  StepLimits room_;
  Activations act_;
  std::unique_ptr<RoutingPlans> plans_;
};

void MoeTransformer::load_replay(const ReplayedLogits& replay) {
  const std::size_t entry = std::size_t{replay.rows} * config_.router.experts;
  if (replay.values.size() != replay.layers * entry)
    throw std::runtime_error("router logits to replay: expected rows of " +
                             std::to_string(config_.router.experts) + " experts, as the model has");
  for (std::uint32_t i = 0; i < replay.layers; ++i) {
    const HostTensor tensor{.name = "replayed router logits",
                            .dtype = Dtype::kF32,
                            .shape = {replay.rows, config_.router.experts},
                            .bytes = std::as_bytes(std::span(replay.values).subspan(i * entry, entry)),
                            .owner = nullptr};
    replayed_.push_back(backend_->upload(tensor, Dtype::kF32));
  }
}

void MoeTransformer::launch(const StepBatch& batch, KvCache& cache, LayerObserver* observer) {
  check(batch);
  attach(cache);
  make_room(batch);
  Backend::KvReady kv_ready;
  if (observer != nullptr) kv_ready = [observer](std::uint32_t layer) { observer->layer_done(layer); };
  backend_->run_step(batch, *cache.device(), std::move(kv_ready),
                     [this](const StepShape& shape) { forward_rows(shape); });
}

// The forward pass, from the rows that the backend holds to the tokens that it samples.
void MoeTransformer::forward_rows(const StepShape& shape) {
  const std::uint32_t t = shape.rows;
  const float eps = config_.rms_eps;
  const RopeTable rope{weights_.rope.view};

  const TensorView x = act_.hidden.view.first_rows(t);       // [T, H]
  const TensorView normed = act_.normed.view.first_rows(t);  // [T, H]
  const TensorView router = act_.router.view.first_rows(t);  // [T, E]
  const AttentionScratch scratch = {normed, act_.qkv.view.first_rows(t), act_.attended.view.first_rows(t)};
  const Tensor* const replayed =
      !replayed_.empty() && t <= replayed_[0].view.rows ? replayed_.data() : nullptr;

  backend_->embed(x, weights_.embedding.view);
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    const LayerWeights& w = weights_.layers[layer];

    const AttentionLayer attention = {
        w.attention_norm.view, eps, *w.qkv, {w.q_norm.view, w.k_norm.view, eps}, rope, *w.o};
    backend_->attention_block(x, attention, scratch, layer);  // norm, q k v, attention, output projection

    backend_->norm_matmul(router, normed, x, w.mlp_norm.view, eps, *w.router);  // norm, then the router
    backend_->route(*plans_, layer,
                    replayed == nullptr ? router : replayed[layer % replayed_.size()].view.first_rows(t));
    backend_->experts_add(x, normed, *w.experts, *plans_, layer);
  }
  if (shape.logit_rows == 0) return;

  const TensorView last = act_.last.view.first_rows(shape.logit_rows);      // [R, H]
  const TensorView final = act_.final.view.first_rows(shape.logit_rows);    // [R, H]
  const TensorView logits = act_.logits.view.first_rows(shape.logit_rows);  // [R, V]
  backend_->gather_rows(last, x);
  backend_->rms_norm(final, last, weights_.final_norm.view, eps);
  backend_->matmul(logits, final, *weights_.lm_head);
  backend_->sample(logits);
}

void MoeTransformer::check(const StepBatch& batch) const {
  LYNX_CHECK(!batch.tokens.empty(), "a batch has rows");
  LYNX_CHECK(batch.exact_rows.empty() || batch.exact_rows.size() == batch.tokens.size(),
             "exact_rows has one flag per row");
  LYNX_CHECK(batch.sampling.empty() || batch.sampling.size() == batch.logit_rows.size(),
             "sampling has one record per logit row");
  for (const SequenceRows& s : batch.sequences)
    LYNX_CHECK(s.context + s.rows <= config_.context, "a sequence grew past the model's context");
}

void MoeTransformer::attach(KvCache& cache) {
  if (cache.device() != nullptr) return;
  const PageLayout& layout = cache.layout();
  LYNX_CHECK(layout.layers == config_.layers && layout.kv_heads == config_.kv_heads &&
                 layout.head_dim == config_.head_dim,
             "the KV cache belongs to another model");
  cache.set_device(backend_->attach_kv(layout, cache.bytes()));
}

// For a batch that is larger than what was promised at load.
void MoeTransformer::make_room(const StepBatch& batch) {
  const auto rows = static_cast<std::uint32_t>(batch.tokens.size());
  const auto logit_rows = static_cast<std::uint32_t>(batch.logit_rows.size());
  const bool longer = std::any_of(batch.sequences.begin(), batch.sequences.end(),
                                  [&](const SequenceRows& s) { return s.context + s.rows > room_.context; });
  if (rows <= act_.hidden.view.rows && logit_rows <= act_.logits.view.rows && !longer) return;
  // A sequence that grew past its promise will go on growing.
  reserve(std::max(rows, act_.hidden.view.rows), std::max(logit_rows, act_.logits.view.rows),
          longer ? config_.context : room_.context);
}

void MoeTransformer::reserve(std::uint32_t rows, std::uint32_t logit_rows, std::uint32_t context) {
  room_ = step_limits(config_, rows, logit_rows, context);
  room_.policy = policy_;
  act_ = {};  // first free, then take
  plans_.reset();
  const StepShape room = backend_->reserve(room_);
  const Dtype input = backend_->matmul_input();
  const std::uint32_t q_size = config_.q_heads * config_.head_dim;
  const std::uint32_t kv_size = config_.kv_heads * config_.head_dim;
  act_.hidden = backend_->allocate(Dtype::kF32, room.rows, config_.hidden);
  act_.normed = backend_->allocate(input, room.rows, config_.hidden);
  act_.qkv = backend_->allocate(Dtype::kF32, room.rows, q_size + 2 * kv_size);
  act_.attended = backend_->allocate(input, room.rows, q_size);
  act_.router = backend_->allocate(Dtype::kF32, room.rows, config_.router.experts);
  act_.last = backend_->allocate(Dtype::kF32, room.logit_rows, config_.hidden);
  act_.final = backend_->allocate(input, room.logit_rows, config_.hidden);
  act_.logits = backend_->allocate(Dtype::kF32, room.logit_rows, config_.vocab);
  plans_ = backend_->make_plans(config_.router, room.rows, config_.layers);
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelConfig& config, TensorSource& source,
                                  std::unique_ptr<Backend> backend, const ModelOptions& options) {
  return std::make_unique<MoeTransformer>(config, source, std::move(backend), options);
}

std::unique_ptr<Model> load_model(const std::string& folder, const ModelOptions& options) {
  const ModelConfig config = read_model_config(folder);
  std::unique_ptr<Backend> backend = make_backend(options.backend);
  log::info("model {}: {} layers, {} experts, top-{}, on {}", folder, config.layers, config.router.experts,
            config.router.top_k, backend->description());
  switch (options.load_format) {
    case LoadFormat::kSafetensors: {
      CheckpointFolder source(folder);
      return make_model(config, source, std::move(backend), options);
    }
    case LoadFormat::kDummy: {
      DummyTensors source(options.dummy_seed);
      return make_model(config, source, std::move(backend), options);
    }
  }
  return nullptr;
}

}  // namespace lynx
