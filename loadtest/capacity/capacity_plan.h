// How many workers a workload needs at an objective: the smallest fleet whose simulation keeps it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/capacity/fleet_simulation.h"
#include "loadtest/replay/statistics.h"

namespace lynx {

struct CapacityGoal {
  double ttft_s = 0.5;
  double tpot_s = 0.05;
  double attainment = 0.99;          // of the requests, inside both
  std::uint32_t most_workers = 256;  // of one kind: no plan looks further
};

struct FleetResult {
  FleetSize fleet{};
  double ttft_met = 0, tpot_met = 0, both_met = 0;  // shares of the requests
  Summary ttft_ms{}, tpot_ms{};
  double prefill_busy = 0, decode_busy = 0, mean_batch = 0, mean_unique = 0;
};
FleetResult judge(const std::vector<PlannedRequest>& requests, const WorkerCost& cost, FleetSize fleet,
                  const CapacityGoal& goal);

struct CapacityPlan {
  std::optional<FleetResult> answer{};  // empty: no fleet does, see `why_not`
  std::string why_not{};
  std::vector<FleetResult> nearby{};  // the answer, one worker less and one more of each kind
  // By the mean load alone, without queues or bursts: what no fleet can go below.
  double least_prefill = 0, least_decode = 0;
  double largest_batch = 0;  // whose step, at the mean context, is inside the TPOT objective
  double mean_context = 0;
};
CapacityPlan plan_capacity(const std::vector<PlannedRequest>& requests, const WorkerCost& cost,
                           const CapacityGoal& goal);

}  // namespace lynx
