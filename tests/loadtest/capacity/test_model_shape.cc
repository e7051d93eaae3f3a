#include "loadtest/capacity/model_shape.h"

#include <gtest/gtest.h>

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
