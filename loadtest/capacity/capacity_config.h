// The settings of lynx-capacity: the trace as lynx-replay takes it, an objective, a model, a GPU and its
// costs.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "loadtest/capacity/capacity_plan.h"
#include "loadtest/capacity/measured_cost.h"
#include "loadtest/replay/replay_config.h"

namespace lynx {

struct CapacityConfig {
  ReplayConfig source;  // of the workload: trace, slice, speedup, lengths, seed, pool, synthetic
  std::string model = "qwen3-30b-a3b";
  std::string policy = "both";
  std::map<std::string, double> unique_experts{};
  std::chrono::milliseconds ttft{500}, tpot{50};
  CapacityGoal goal;
  GpuShape gpu;
  CostOptions cost;
  std::string measured{};
  std::string result{};

  CapacityConfig();
  ConfigFields fields();
  // Throw ConfigError naming the field.
  Workload load_workload(std::string& trace_name) const;
  ModelShape load_model() const;
  CapacityGoal capacity_goal() const;
  // The policies to plan for, by name, in the order of the report.
  std::vector<std::pair<std::string, UniqueExperts>> policies(const ModelShape& model) const;
  void check_costs() const;
  // What the file of `measured` says takes the place of the settings that it measures. Empty: no file.
  std::optional<MeasuredCost> take_measured(const ModelShape& shape);
};

std::string capacity_text(const CapacityConfig& config, const ModelShape& model,
                          const std::optional<MeasuredCost>& measured, const std::string& trace,
                          const std::vector<PlannedRequest>& requests,
                          const std::vector<std::tuple<std::string, WorkerCost, CapacityPlan>>& plans);
std::string capacity_json(const CapacityConfig& config, const std::string& trace,
                          const std::vector<std::tuple<std::string, WorkerCost, CapacityPlan>>& plans);

}  // namespace lynx
