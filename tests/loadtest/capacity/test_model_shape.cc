#include "loadtest/capacity/model_shape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "services/engine/kv_cache.h"
#include "services/engine/moe_transformer.h"

namespace lynx {
namespace {

TEST(ModelShape, APublishedOneRunsWithItsDimensions) {
  const ModelShape* shape = published_shape("qwen3-30b-a3b");
  ASSERT_NE(shape, nullptr);
  const auto config = runnable_config(*shape);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers, 48U);
  EXPECT_EQ(config->hidden, 2048U);
  EXPECT_EQ(config->vocab, 151936U);
  EXPECT_EQ(config->q_heads, 32U);
  EXPECT_EQ(config->kv_heads, 4U);
  EXPECT_EQ(config->head_dim, 128U);
  EXPECT_EQ(config->router.experts, 128U);
  EXPECT_EQ(config->router.top_k, 8U);
  EXPECT_EQ(static_cast<double>(config->expert_bytes()), shape->expert_bytes());
}

TEST(ModelShape, ItsConfigTakesASequenceThroughAStep) {
  const auto config = runnable_config({.name = "small",
                                       .layers = 2,
                                       .hidden = 64,
                                       .vocab = 96,
                                       .q_heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 16,
                                       .experts = 8,
                                       .top_k = 2,
                                       .expert_width = 32});
  ASSERT_TRUE(config) << config.error().message;
  DummyTensors weights(0);
  const auto model = make_model(*config, weights, make_backend({.device = "cpu", .threads = 1}));
  KvCache cache(page_layout(*config, 1, 16, KvDtype::kBf16));
  const std::vector<TokenId> tokens{3, 5, 7};
  const std::vector<BlockId> blocks{0};
  const SequenceRows sequence{0, 3, 0, blocks};
  const std::uint32_t last = 2;
  StepResult result;
  model->forward({tokens, {&sequence, 1}, {&last, 1}, {}, {}}, cache, result, nullptr);
  ASSERT_EQ(result.logits.size(), 96U);
  EXPECT_TRUE(std::isfinite(result.logits[0]));
  ASSERT_EQ(result.layers.size(), 2U);
  EXPECT_GE(result.layers[0].activated_experts, 2U);
}

TEST(ModelShape, OneOfCompressedKvDoesNotRun) {
  const auto config = runnable_config(*published_shape("deepseek-v2-lite"));
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().message, "deepseek-v2-lite: its compressed KV is not computed here");
}

TEST(ModelShape, AnotherNameIsNotPublished) {
  EXPECT_EQ(published_shape("qwen3"), nullptr);
  const auto shape = find_model_shape("qwen3");
  ASSERT_FALSE(shape);
  EXPECT_NE(shape.error().message.find("mixtral-8x7b"), std::string::npos) << shape.error().message;
}

}  // namespace
}  // namespace lynx
