#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "loadtest/capacity/capacity_config.h"
#include "tests/loadtest/capacity/simple_fleet.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(CapacityConfig, EverySettingIsListedOnceAndChecked) {
  CapacityConfig config;
  EXPECT_NO_THROW(print_yaml(config.fields()));
  EXPECT_NO_THROW(config.check_costs());
  config.cost.read_efficiency = 1.5;
  EXPECT_NE(message_of([&] { config.check_costs(); }).find("--cost.read-efficiency"), std::string::npos);
  config.goal.attainment = 0;
  EXPECT_NE(message_of([&] { static_cast<void>(config.capacity_goal()); }).find("--attainment"),
            std::string::npos);
  config.model = "gpt-9";
  EXPECT_NE(message_of([&] { static_cast<void>(config.load_model()); }).find("qwen3-30b-a3b"),
            std::string::npos);
  config.policy = "magic";
  EXPECT_NE(message_of([&] { static_cast<void>(config.policies(known_model_shapes()[0])); }).find("--policy"),
            std::string::npos);
}

TEST(CapacityConfig, MeasuredExpertsReplaceTheCurve) {
  CapacityConfig config;
  config.unique_experts = {{"1", 8}, {"16", 40}};
  const auto policies = config.policies(known_model_shapes()[0]);
  ASSERT_EQ(policies.size(), 1u);
  EXPECT_EQ(policies[0].second.at(16), 40);
  EXPECT_EQ(policies[0].second.at(4), 24) << "half way in log2";
  config.unique_experts = {{"many", 8}};
  EXPECT_THROW(static_cast<void>(config.policies(known_model_shapes()[0])), ConfigError);
  config.unique_experts = {{"1", 500}};
  EXPECT_THROW(static_cast<void>(config.policies(known_model_shapes()[0])), ConfigError);
}

TEST(CapacityConfig, ReadsTheShippedModelsShape) {
  CapacityConfig config;
  config.model = source_path("deploy/model");
  const ModelShape model = config.load_model();
  EXPECT_EQ(model.experts, 64u);
  EXPECT_EQ(model.top_k, 8u);
}

TEST(CapacityReport, TellsAnswerAndAssumptions) {
  CapacityConfig config;
  const auto requests = testing::every(0.1, 100, 200, 50);
  const ModelShape& model = known_model_shapes()[0];
  std::vector<std::tuple<std::string, WorkerCost, CapacityPlan>> plans;
  for (const auto& [name, experts] : config.policies(model)) {
    const auto cost = WorkerCost::make(model, config.gpu, config.cost, experts);
    plans.emplace_back(name, *cost, plan_capacity(requests, *cost, config.capacity_goal()));
  }
  const std::string text = capacity_text(config, model, std::nullopt, "made-up", requests, plans);
  for (const char* part :
       {"100 requests over 10 s", "200 tokens in and 50 out", "TTFT 500 ms and TPOT 50 ms for 99 %",
        "4.55 TB/s x 0.87", "ANSWER: 1 prefill + 1 decode workers = 2 GPUs", "lynx experts", "exact experts",
        "no prefix cache"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  const auto json = nlohmann::json::parse(capacity_json(config, "made-up", plans));
  EXPECT_EQ(json["plans"]["lynx"]["answer"]["decode_workers"], 1);
  EXPECT_EQ(json["plans"]["exact"]["answer"]["attainment"], 1);
}

}  // namespace
}  // namespace lynx
