// A fleet of prefill and decode workers on a workload, step by step in simulated time: first come first
// served prefill, then continuous batching on the decode worker with the fewest sequences. A sequence holds
// its whole length of the KV pool from the start, as a lease does, and waits while the batch or the pool is
// full. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "loadtest/capacity/worker_cost.h"
#include "loadtest/replay/workload.h"

namespace lynx {

struct FleetSize {
  std::uint32_t prefill = 1, decode = 1;  // workers; decode 0 = only TTFT is asked for
  std::uint32_t total() const { return prefill + decode; }
};

struct SimulatedRequest {
  double ttft_s = 0;
  double tpot_s = 0;     // 0 when there is but one token
  bool served = true;    // false: it fits no worker's pool
  double prefill_s = 0;  // alone, without a queue: its TTFT's floor
};

struct SimulatedRun {
  std::vector<SimulatedRequest> requests{};  // in the order of the workload
  double prefill_busy = 0,
         decode_busy = 0;  // share of the arrivals' time, mean of the workers; above 1: it falls behind
  double mean_batch = 0;   // sequences per decode step
  double mean_unique = 0;  // experts per layer-step
};

SimulatedRun simulate(const std::vector<PlannedRequest>& requests, const WorkerCost& cost, FleetSize fleet);

}  // namespace lynx
