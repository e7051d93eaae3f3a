#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "loadtest/capacity/capacity_config.h"
#include "loadtest/capacity/measured_cost.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

const ModelShape& shape(const std::string& name) {
  return *std::ranges::find(known_model_shapes(), name, &ModelShape::name);
}

// A row of `lynx-bench kernel --json`.
std::string layer(const std::string& name, double experts, double us) {
  char out[200];
  std::snprintf(out, sizeof out,
                R"({"name": "%s", "unit": "us/layer", "value": %.9g, "details": {"active_experts": %.9g}})",
                name.c_str(), us, experts);
  return out;
}
const std::string kRead = R"({"name": "read.75MiB", "value": 3900, "ceiling": 4500, "details": {}})";

// A row of `lynx-bench step --json`, of a model of that shape.
std::string step(const ModelShape& model, const std::string& name, double megabytes, double ms) {
  char out[300];
  std::snprintf(out, sizeof out,
                R"({"name": "%s", "value": %.9g, "details": {"step_mbytes": %.9g, "layers": %u,)"
                R"( "expert_mbytes": %.9g, "memory_gbytes_per_s": 4500}})",
                name.c_str(), ms, megabytes, model.layers, model.expert_bytes() / 1e6);
  return out;
}

std::string error_of(const std::string& text, const std::string& model = "qwen3-30b-a3b") {
  const auto read = parse_measured_cost(text, "bench.json", shape(model));
  return read.ok() ? "" : read.error().message;
}

TEST(MeasuredCost, ALineThroughLayersGivesSlopeAndFixedCost) {
  std::string rows = "[" + kRead;
  for (const double experts : {8.0, 30.0, 60.0, 128.0})
    rows += "," + layer("qwen3-30b-a3b.random.b" + std::to_string(static_cast<int>(experts)), experts,
                        15 + 2.5 * experts);
  rows += "," + layer("mixtral-8x7b.random.b1", 2, 1e6) + R"(,{"name": "route.n128.off.b1", "value": 4}])";
  const ModelShape& model = shape("qwen3-30b-a3b");
  const auto cost = parse_measured_cost(rows, "bench.json", model);
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  EXPECT_EQ(cost->of, MeasuredCost::Of::kLayers);
  EXPECT_EQ(cost->rows, 4u) << "another model's layers are no part of it";
  EXPECT_NEAR(cost->per_expert_s, 2.5e-6, 1e-12);
  EXPECT_NEAR(cost->fixed_s, 15e-6, 1e-11);
  EXPECT_NEAR(cost->worst_error, 0, 1e-9);
  EXPECT_EQ(cost->bytes_per_second, 4.5e12);

  GpuShape gpu;
  CostOptions options{.gpus = 2, .all_reduce_s = 0, .step_overhead_s = 1e-3};
  apply(*cost, model, gpu, options);
  const UniqueExperts experts(model, {{16, 40}});
  const auto worker = WorkerCost::make(model, gpu, options, experts);
  ASSERT_TRUE(worker.ok()) << worker.error().message;
  const double dense = model.dense_bytes() / (2 * 4.5e12 * options.read_efficiency);
  EXPECT_NEAR(worker->step_seconds(16, 0), 1e-3 + dense + 48 * (15e-6 + 40 * 2.5e-6 / 2), 1e-9)
      << "two GPUs halve what is read, not what is fixed";
}

TEST(MeasuredCost, ExpertsOfPromptsGiveWhatPrefillReaches) {
  std::string rows = "[" + kRead + "," + layer("qwen3-30b-a3b.random.b1", 8, 35) + "," +
                     layer("qwen3-30b-a3b.random.b16", 80, 180);
  for (const int tokens : {512, 2048, 4096})
    rows += R"(,{"name": "qwen3-30b-a3b.prefill_experts.t)" + std::to_string(tokens) +
            R"(", "unit": "TFLOP/s", "value": 300, "details": {"route_us": 10, "experts_us": )" +
            std::to_string(240 + 0.2 * tokens) + "}}";
  const ModelShape& model = shape("qwen3-30b-a3b");
  const auto cost = parse_measured_cost(rows + "]", "bench.json", model);
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  EXPECT_EQ(cost->rows, 2u) << "a prompt is no decode step";
  EXPECT_EQ(cost->prefill_rows, 3u);
  EXPECT_NEAR(cost->prefill_layer_s, 250e-6, 1e-9);
  EXPECT_NEAR(cost->prefill_flops, 2.0 * 8 * 3 * 2048 * 768 / 0.2e-6, 1e9);
  GpuShape gpu;
  CostOptions options{.prefill_overhead_s = 1e-3};
  apply(*cost, model, gpu, options);
  EXPECT_NEAR(options.prefill_efficiency, cost->prefill_flops / gpu.flops, 1e-12);
  EXPECT_EQ(options.prefill_overhead_s, 1e-3);

  // The experts of all layers alone: what else a prompt costs is that of one that is all chunks.
  const UniqueExperts experts(model, {{16, 40}});
  const auto prompt = [&](std::uint32_t chunk, std::uint32_t gpus) {
    options.prefill_chunk = chunk;
    options.gpus = gpus;
    options.all_reduce_s = 0;
    const auto worker = WorkerCost::make(model, gpu, options, experts);
    EXPECT_TRUE(worker.ok());
    return worker->prefill_seconds(4096);
  };
  EXPECT_NEAR(prompt(512, 1) - prompt(4096, 1), 7 * 48 * 250e-6, 1e-9)
      << "each of the eight chunks reads the experts again";
  EXPECT_NEAR(prompt(512, 1) - prompt(4000, 1), 6 * 48 * 250e-6, 1e-9) << "the rest is a chunk too";
  EXPECT_NEAR(prompt(512, 2) - prompt(4096, 2), 7 * 48 * 125e-6, 1e-9) << "two GPUs share the reading";
}

TEST(MeasuredCost, ALineThroughStepsReplacesTheWholeStep) {
  const ModelShape& model = shape("qwen3-30b-a3b");
  const std::string rows = "[" + step(model, "step.b1.lynx", 6000, 0.8 + 1.5) + "," +
                           step(model, "step.b16.lynx", 20000, 0.8 + 5) + "," +
                           step(model, "step.b16.off", 28000, 0.8 + 7) + "]";
  const auto cost = parse_measured_cost(rows, "bench.json", model);
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  EXPECT_EQ(cost->of, MeasuredCost::Of::kSteps);
  EXPECT_EQ(cost->rows, 3u);
  EXPECT_NEAR(cost->fixed_s, 0.8e-3, 1e-9);
  GpuShape gpu;
  CostOptions options{.layer_overhead_s = 1, .expert_bandwidth = 1};
  apply(*cost, model, gpu, options);
  EXPECT_EQ(gpu.bytes_per_second, 4.5e12);
  EXPECT_NEAR(options.read_efficiency * gpu.bytes_per_second, 4e12, 1e6) << "4 GB take a millisecond";
  const auto worker = WorkerCost::make(model, gpu, options, {model, {{16, 40}}});
  ASSERT_TRUE(worker.ok());
  EXPECT_NEAR(worker->step_seconds(16, 0),
              0.8e-3 + (model.dense_bytes() + 48 * 40 * model.expert_bytes()) / 4e12, 1e-9);
}

// Batches in a cache: the slope is above the bandwidth of gigabytes, and the line would start below zero.
TEST(MeasuredCost, NoStepIsCheaperThanNothing) {
  const ModelShape& model = shape("qwen3-30b-a3b");
  const auto cost = parse_measured_cost(
      "[" + step(model, "step.b1", 1000, 0.1) + "," + step(model, "step.b16", 2000, 0.3) + "]", "bench.json",
      model);
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  EXPECT_EQ(cost->fixed_s, 0);
  GpuShape gpu;
  CostOptions options;
  apply(*cost, model, gpu, options);
  EXPECT_LE(options.read_efficiency, 1);
  EXPECT_GT(gpu.bytes_per_second, 4.5e12);
}

// Times of an H200, as lynx-bench printed them.
TEST(MeasuredCost, TakesWhatTheBenchmarkWrote) {
  CapacityConfig config;
  config.measured = source_path("tests/loadtest/capacity/data/kernel_h200.json");
  const ModelShape model = config.load_model();
  const auto cost = config.take_measured(model);
  ASSERT_TRUE(cost);
  EXPECT_NO_THROW(config.check_costs());
  EXPECT_EQ(cost->rows, 17u);
  EXPECT_NEAR(config.gpu.bytes_per_second, 4.654e12, 1e9);
  EXPECT_NEAR(config.cost.expert_bandwidth, 4.51e12, 0.01e12);
  EXPECT_LT(cost->worst_error, 0.16);
  EXPECT_NEAR(cost->per_expert_s * model.experts + cost->fixed_s, 280.8e-6, 15e-6) << "all 128 at B = 16";
  EXPECT_EQ(config.cost.step_overhead_s, CostOptions{}.step_overhead_s) << "layers tell nothing of it";
  config.measured = "";
  EXPECT_FALSE(config.take_measured(model));
}

TEST(MeasuredCost, WhatTheFileLacksIsNamed) {
  for (const char* none : {"", "{}", "[1]", "no JSON"})
    EXPECT_NE(error_of(none).find("bench.json: no list of rows"), std::string::npos) << none;
  const std::string one = layer("qwen3-30b-a3b.random.b8", 50, 120);
  EXPECT_NE(error_of("[" + kRead + "," + one + "]", "mixtral-8x7b").find("it has qwen3-30b-a3b"),
            std::string::npos);
  EXPECT_NE(error_of("[" + kRead + "," + one + "," + one + "]").find("at least two"), std::string::npos);
  const std::string two = one + "," + layer("qwen3-30b-a3b.random.b16", 80, 200);
  EXPECT_NE(error_of("[" + two + "]").find("no read bandwidth"), std::string::npos);
  EXPECT_EQ(error_of("[" + kRead + "," + two + "]"), "");
  const std::string falling = one + "," + layer("qwen3-30b-a3b.random.b16", 80, 20);
  EXPECT_NE(error_of("[" + kRead + "," + falling + "]").find("do not grow"), std::string::npos);
  const std::string other = step(shape("mixtral-8x7b"), "step.b1", 1, 1);
  EXPECT_NE(error_of("[" + other + "]").find("step.b1: layers and expert_mbytes are not those of"),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"name": "step.b4", "value": 1}])").find("step.b4: no time or no step_mbytes"),
            std::string::npos);
  CapacityConfig config;
  config.measured = "/nowhere.json";
  try {
    config.take_measured(shape("qwen3-30b-a3b"));
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(), "--cost.measured: /nowhere.json: cannot be opened");
  }
}

}  // namespace
}  // namespace lynx
