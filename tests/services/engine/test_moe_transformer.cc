// What the forward pass promises beside its numbers: statistics, exact rows, the observer, random weights.
#include "services/engine/moe_transformer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kernels/lynx/reference.h"
#include "services/engine/kv_cache.h"
#include "services/engine/model_config.h"
#include "tests/services/engine/watched_backend.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

constexpr std::uint32_t kRows = 12;

ModelConfig small_config() {
  ModelConfig config;
  config.architecture = "Qwen3MoeForCausalLM";
  config.vocab = 100;
  config.hidden = 32;
  config.layers = 3;
  config.q_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.moe_intermediate = 16;
  config.router = {16, 4, true, RouterKind::kSoftmax};
  config.context = 64;
  config.tie_embeddings = true;
  return config;
}

std::unique_ptr<Model> small_model(std::uint64_t seed, const ModelConfig& config = small_config()) {
  DummyTensors source(seed);
  return make_model(config, source, make_backend({"cpu", 2}));
}

// One decode batch of kRows sequences of one token each.
struct Batch {
  explicit Batch(const Model& model)
      : cache(page_layout(model.config(), kRows, 16, KvDtype::kF32)), blocks(kRows) {
    std::iota(blocks.begin(), blocks.end(), 0);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      tokens.push_back(row * 7);
      sequences.push_back({row, 1, 0, {&blocks[row], 1}});
      logit_rows.push_back(row);
    }
  }
  StepResult run(Model& model, PolicyKind kind, LayerObserver* observer = nullptr) {
    StepResult result;
    RoutePolicy policy;
    policy.kind = kind;
    model.forward({tokens, sequences, logit_rows, exact, policy}, cache, result, observer);
    return result;
  }

  KvCache cache;
  std::vector<BlockId> blocks;
  std::vector<TokenId> tokens;
  std::vector<SequenceRows> sequences;
  std::vector<std::uint32_t> logit_rows;
  std::vector<std::uint8_t> exact;
};

TEST(MoeTransformer, StatisticsOfEveryLayer) {
  const auto model = small_model(1);
  Batch batch(*model);
  const StepResult off = batch.run(*model, PolicyKind::kOff);
  const StepResult lynx = batch.run(*model, PolicyKind::kLynx);
  ASSERT_EQ(off.layers.size(), 3U);
  ASSERT_EQ(lynx.layers.size(), 3U);
  EXPECT_EQ(off.logits.size(), kRows * 100U);
  std::uint32_t remapped = 0;
  for (std::size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(off.layers[layer].assignments, kRows * 4);
    EXPECT_EQ(off.layers[layer].activated_experts, off.layers[layer].routed_experts);
    EXPECT_EQ(off.layers[layer].remapped, 0U);
    EXPECT_LE(lynx.layers[layer].activated_experts, lynx.layers[layer].routed_experts);
    remapped += lynx.layers[layer].remapped;
  }
  EXPECT_GT(remapped, 0U) << "the batch gives remapping nothing to do";
}

// All rows exact: remapping may not change anything. Some rows exact: theirs keep all their experts.
TEST(MoeTransformer, ExactRowsKeepTheirExperts) {
  const auto model = small_model(1);
  Batch batch(*model);
  const StepResult off = batch.run(*model, PolicyKind::kOff);
  batch.exact.assign(kRows, 1);
  const StepResult exact = batch.run(*model, PolicyKind::kLynx);
  EXPECT_EQ(exact.logits, off.logits);
  batch.exact.assign(kRows, 0);
  batch.exact[5] = 1;
  const StepResult mixed = batch.run(*model, PolicyKind::kLynx);
  const auto row = [](const StepResult& r, int i) {
    return std::vector<float>(r.logits.begin() + i * 100, r.logits.begin() + (i + 1) * 100);
  };
  EXPECT_EQ(row(mixed, 5), row(off, 5));
  EXPECT_NE(mixed.logits, off.logits);
}

TEST(MoeTransformer, ReplayedLogitsDecideTheRouting) {
  ModelOptions options;
  options.replay = {.layers = 2, .rows = kRows, .values = std::vector<float>(2 * kRows * 16)};
  for (std::size_t i = 0; i < options.replay.values.size(); ++i)
    options.replay.values[i] = static_cast<float>((i * 2654435761U) % 1000) / 250.0F;
  DummyTensors source(1);
  const auto model = make_model(small_config(), source, make_backend({"cpu", 2}), options);
  Batch batch(*model);
  batch.run(*model, PolicyKind::kLynx);
  const std::vector<std::uint8_t> live(kRows, 1);
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    const auto logits = std::span(options.replay.values).subspan(layer % 2 * kRows * 16, kRows * 16);
    ExpertPlan want, got;
    route_reference(want, logits, small_config().router, {.kind = PolicyKind::kLynx}, {live, {}});
    model->read_plan(layer, got);
    EXPECT_EQ(got.experts, want.experts) << "layer " << layer;
    EXPECT_EQ(got.weights, want.weights);
  }
}

TEST(MoeTransformer, ObserverSeesEachLayersKvInOrder) {
  struct Watch final : LayerObserver {
    explicit Watch(KvCache& c) : cache(c) {}
    void layer_done(std::uint32_t layer) override {
      layers.push_back(layer);
      for (std::uint32_t l = 0; l < cache.layout().layers; ++l) {
        const auto bytes = cache.run(l, 0, kRows);
        const bool written =
            std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
        EXPECT_EQ(written, l <= layer);
      }
    }
    KvCache& cache;
    std::vector<std::uint32_t> layers;
  };
  const auto model = small_model(1);
  Batch batch(*model);
  Watch watch(batch.cache);
  (void)batch.run(*model, PolicyKind::kOff, &watch);
  EXPECT_EQ(watch.layers, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(MoeTransformer, NoLogitsWhenNoneAreWanted) {
  const auto model = small_model(1);
  Batch batch(*model);
  batch.logit_rows.clear();
  EXPECT_TRUE(batch.run(*model, PolicyKind::kOff).logits.empty());
  batch.logit_rows = {3, 11};
  const StepResult two = batch.run(*model, PolicyKind::kOff);
  batch.logit_rows = {11};
  const StepResult one = batch.run(*model, PolicyKind::kOff);
  EXPECT_EQ(std::vector<float>(two.logits.begin() + 100, two.logits.end()), one.logits);
}

TEST(MoeTransformer, FingerprintFollowsConfigAndWeights) {
  const std::uint64_t base = small_model(1)->fingerprint();
  EXPECT_EQ(base, small_model(1)->fingerprint());
  EXPECT_NE(base, small_model(2)->fingerprint());
  ModelConfig other = small_config();
  other.router.norm_topk_prob = false;
  EXPECT_NE(base, small_model(1, other)->fingerprint());
  other = small_config();
  other.rope_theta = 5000;
  EXPECT_NE(base, small_model(1, other)->fingerprint());
}

TEST(MoeTransformer, DummyWeightsForAnyConfig) {
  const std::string folder = source_path("tests/golden/tiny_raw_weights");
  ModelOptions options;
  options.load_format = LoadFormat::kDummy;
  const auto dummy = load_model(folder, options);
  const auto real = load_model(folder);
  EXPECT_EQ(dummy->config().vocab, real->config().vocab);
  EXPECT_NE(dummy->fingerprint(), real->fingerprint());
}

TEST(MoeTransformer, TheLongestSequenceIsThatOfThePool) {
  const ModelConfig config = small_config();  // a context of 64
  const auto of_pool = [&](std::uint32_t blocks) {
    return longest_context(config, page_layout(config, blocks, 16, KvDtype::kF32));
  };
  EXPECT_EQ(of_pool(1), 16U);
  EXPECT_EQ(of_pool(3), 48U);
  EXPECT_EQ(of_pool(4), 64U);
  EXPECT_EQ(of_pool(1U << 30), 64U) << "2^34 tokens";
  EXPECT_EQ(step_limits(config, 8, 8).context, 64U);
  EXPECT_EQ(step_limits(config, 8, 8, 48).context, 48U);
}

// Room is made for the longest sequence that was promised; one that is longer after all gets the same logits.
TEST(MoeTransformer, MakesRoomForAsLongASequenceAsWasPromised) {
  constexpr std::uint32_t kPromised = 20;
  std::vector<StepLimits> reserved;
  DummyTensors few(1);
  DummyTensors all(1);
  ModelOptions options;
  options.max_context = kPromised;
  const auto model = make_model(
      small_config(), few, std::make_unique<WatchedBackend>(make_backend({"cpu", 2}), reserved), options);
  const auto unlimited = make_model(small_config(), all, make_backend({"cpu", 2}));
  KvCache short_cache(page_layout(small_config(), 4, 16, KvDtype::kF32));
  KvCache long_cache(short_cache.layout());
  const std::vector<BlockId> blocks{2, 0, 3, 1};
  for (std::uint32_t at = 0; at < 2 * kPromised; ++at) {
    const std::vector<TokenId> token{at * 7 % 100};
    const SequenceRows rows{0, 1, at, blocks};
    const std::vector<std::uint32_t> logit_rows{0};
    StepBatch batch;
    batch.tokens = token;
    batch.sequences = {&rows, 1};
    batch.logit_rows = logit_rows;
    StepResult got;
    StepResult want;
    model->forward(batch, short_cache, got, nullptr);
    unlimited->forward(batch, long_cache, want, nullptr);
    ASSERT_EQ(got.logits, want.logits) << at;
    ASSERT_EQ(reserved.size(), at < kPromised ? 1U : 2U) << at;
    EXPECT_EQ(reserved.back().context, at < kPromised ? kPromised : small_config().context);
    EXPECT_EQ(reserved.back().rows, options.max_rows);
  }
}

TEST(MoeTransformer, UnknownDeviceIsNamed) { EXPECT_THROW(make_backend({"tpu", 1}), std::runtime_error); }

}  // namespace
}  // namespace lynx
