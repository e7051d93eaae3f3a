// lynx-capacity: how many prefill and decode workers a trace needs at an objective.
#include <cstdio>
#include <iostream>

#include "common/core/write_file.h"
#include "loadtest/capacity/capacity_config.h"

namespace {

using namespace lynx;

int run(CapacityConfig config) {
  const CapacityGoal goal = config.capacity_goal();
  const ModelShape model = config.load_model();
  const auto measured = config.take_measured(model);
  config.check_costs();
  const auto policies = config.policies(model);
  std::string trace;
  const Workload workload = config.load_workload(trace);
  std::vector<std::tuple<std::string, WorkerCost, CapacityPlan>> plans;
  bool all = true;
  for (const auto& [name, experts] : policies) {
    const auto cost = WorkerCost::make(model, config.gpu, config.cost, experts);
    if (!cost) throw ConfigError(cost.error().message);
    plans.emplace_back(name, *cost, plan_capacity(workload.requests, *cost, goal));
    all = all && std::get<CapacityPlan>(plans.back()).answer.has_value();
  }
  std::cout << capacity_text(config, model, measured, trace, workload.requests, plans) << std::flush;
  if (!config.result.empty()) write_file(config.result, capacity_json(config, trace, plans));
  return all ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CapacityConfig config;
    ConfigFields fields = config.fields();
    const ConfigOutcome outcome = configure(
        argc, argv, "lynx-capacity",
        "How many prefill and decode workers a trace needs at an objective. Exit status 1: none does.",
        fields);
    return outcome == ConfigOutcome::kExit ? 0 : run(config);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lynx-capacity: %s\n", e.what());
    return 2;
  }
}
