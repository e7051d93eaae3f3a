#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/loadtest/capacity/simple_fleet.h"

namespace lynx {
namespace {

const ModelShape& shape(const std::string& name) {
  return *std::ranges::find(known_model_shapes(), name, &ModelShape::name);
}

// The decode floor of Qwen3-30B-A3B on an H200 at batch 16 and 1k context was worked out apart from this
// code: 5.9 ms with 50 experts per layer, 4.0 ms with 31.
TEST(WorkerCost, StepAtTheMemoryFloorOfAnH200) {
  CostOptions floor;
  floor.step_overhead_s = 0;
  floor.read_efficiency = 1;
  for (const auto& [experts, milliseconds] : {std::pair{50.0, 5.9}, std::pair{31.0, 4.0}}) {
    const auto cost =
        WorkerCost::make(shape("qwen3-30b-a3b"), {}, floor, {shape("qwen3-30b-a3b"), {{16, experts}}});
    ASSERT_TRUE(cost.ok()) << cost.error().message;
    EXPECT_NEAR(1e3 * cost->step_seconds(16, 16 * 1024), milliseconds, 0.1);
  }
}

TEST(WorkerCost, SizesOfPublishedModels) {
  EXPECT_NEAR(shape("qwen3-30b-a3b").weight_bytes() / 2e9, 30.5, 0.3) << "billions of weights, as published";
  EXPECT_NEAR(shape("qwen2-57b-a14b").weight_bytes() / 2e9, 57.4, 0.6);
  EXPECT_NEAR(shape("mixtral-8x7b").weight_bytes() / 2e9, 46.7, 0.5);
  EXPECT_NEAR(shape("qwen3-30b-a3b").kv_bytes_per_token(), 98304, 1);
  EXPECT_NEAR(shape("qwen3-30b-a3b").flops_per_token() / 2e9, 3.0, 0.35)
      << "active weights, without the embeddings";
}

TEST(WorkerCost, ExpertsAreTheMeasuredOnesForTheMeasuredShape) {
  ModelShape pilot = shape("qwen2-57b-a14b");  // 64 experts, top-8
  const UniqueExperts exact(pilot, UniqueExperts::Policy::kExact), lynx(pilot, UniqueExperts::Policy::kLynx);
  for (const auto& [batch, experts] :
       {std::pair{1.0, 8.0}, std::pair{8.0, 37.5}, std::pair{16.0, 49.7}, std::pair{64.0, 61.9}})
    EXPECT_NEAR(exact.at(batch), experts, 0.6) << batch;
  for (const auto& [batch, experts] :
       {std::pair{1.0, 8.0}, std::pair{8.0, 22.7}, std::pair{16.0, 34.7}, std::pair{64.0, 56.1}})
    EXPECT_NEAR(lynx.at(batch), experts, 1.2) << batch;
  for (double batch = 1; batch < 300; batch *= 1.3) {
    EXPECT_LE(lynx.at(batch), exact.at(batch));
    EXPECT_GE(lynx.at(batch), 8);
    EXPECT_LE(exact.at(batch), 64);
  }
  EXPECT_EQ(exact.at(0), 0);
}

TEST(WorkerCost, WeightsThatDoNotFitAskForMoreGpus) {
  const ModelShape& big = shape("qwen2-57b-a14b");
  const UniqueExperts experts(big, UniqueExperts::Policy::kExact);
  const GpuShape small{.memory_bytes = 80e9};
  const auto alone = WorkerCost::make(big, small, {}, experts);
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.error().message.find("give it 2 GPUs"), std::string::npos) << alone.error().message;
  const auto pair = WorkerCost::make(big, small, {.gpus = 2}, experts);
  ASSERT_TRUE(pair.ok());
  EXPECT_GT(pair->coefficients().kv_tokens, 100'000u);
  EXPECT_GT(pair->coefficients().fixed_s, 2 * 28 * 13e-6)
      << "what two GPUs say to each other is in every step";
}

// 128 experts of 48 layers are 58 GB.
TEST(WorkerCost, EachChunkOfAPromptReadsEveryExpert) {
  const ModelShape& model = shape("qwen3-30b-a3b");
  const double reading = 48 * 128 * model.expert_bytes() / (4.55e12 * 0.87);
  const UniqueExperts experts(model, UniqueExperts::Policy::kExact);
  const auto cost = WorkerCost::make(model, {}, {}, experts);
  ASSERT_TRUE(cost.ok());
  EXPECT_NEAR(cost->coefficients().prefill_chunk_s, reading, 1e-9);
  EXPECT_NEAR(reading, 14.6e-3, 0.1e-3);
  EXPECT_GT(cost->prefill_seconds(513) - cost->prefill_seconds(512), reading);
  EXPECT_LT(cost->prefill_seconds(512) - cost->prefill_seconds(511), 1e-3);
  const auto pair = WorkerCost::make(model, {}, {.gpus = 2}, experts);
  ASSERT_TRUE(pair.ok());
  EXPECT_NEAR(pair->coefficients().prefill_chunk_s, reading / 2 + 2 * 48 * 13e-6, 1e-9)
      << "and each is summed twice a layer between the GPUs";
}

TEST(WorkerCost, TakesWhatAWorkerHasLearnt) {
  StepCost learnt;
  for (int i = 0; i < 400; ++i) {
    const StepWork work{.expert_bytes = 1e6 * (1 + i % 7), .kv_bytes = 1e6 * (1 + i % 5)};
    learnt.observe(work, 2e-3 + 3e-10 * work.expert_bytes + 5e-10 * work.kv_bytes);
  }
  WorkerCost cost = testing::flat_cost(1, 1, 4);
  cost.learn(learnt);
  EXPECT_NEAR(cost.coefficients().fixed_s, 2e-3, 1e-5);
  EXPECT_NEAR(cost.coefficients().per_expert_byte, 3e-10, 1e-12);
  EXPECT_NEAR(cost.coefficients().per_kv_byte, 5e-10, 1e-12);
}

}  // namespace
}  // namespace lynx
