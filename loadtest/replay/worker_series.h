// The workers' metrics over a run: scrapes, reduced as they come, and the curves between them. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "loadtest/replay/worker_metrics.h"

namespace lynx {

// What one scrape of one worker is kept as. Sums and counts are since the worker's birth.
struct WorkerSample {
  double at_s = 0;  // since the start of the run
  double routed_sum = 0, routed_count = 0, activated_sum = 0, activated_count = 0;
  double decode_steps = 0, prefill_steps = 0;
  double batch_sum = 0, batch_count = 0;  // sequences per step
  double step_seconds = 0;                // spent in steps
  double kv_bytes = 0, kv_seconds = 0, kv_transfers = 0;
  std::map<std::string, double> blocks{};  // of the KV pool, by state
};
WorkerSample reduce(const MetricsText& scrape, double at_s);

struct WorkerHistory {
  std::string name{};  // host:port
  std::vector<WorkerSample> samples{};
  bool decodes() const;  // it decoded more than it prefilled
};

// One point per pair of consecutive samples, at the time of the later. NaN: nothing happened in between.
using Points = std::vector<double>;
struct WorkerCurves {
  std::string name{};
  bool decodes = false;
  Points at_s{};
  Points busy{};         // share of the time in steps
  Points batch{};        // sequences per step, mean
  Points blocks_used{};  // share of the KV pool that is not free
};
std::vector<WorkerCurves> worker_curves(const std::vector<WorkerHistory>& workers);

// All workers together; experts over those that decode.
struct FleetCurves {
  Points at_s{};
  Points routed{}, activated{};      // distinct experts per layer-step
  Points layer_steps{};              // that these are the mean of
  Points batch{};                    // sequences per decode step, mean
  Points kv_bytes_per_s{}, kv_ms{};  // moved; mean of a hand-over
};
FleetCurves fleet_curves(const std::vector<WorkerHistory>& workers);

// The curves over `at_s`, by the names that a result file has for them: who writes, reads or makes them takes
// them from here.
template <typename Curves>
struct NamedCurve {
  const char* name;
  Points Curves::*points;
};
inline constexpr NamedCurve<WorkerCurves> kWorkerCurves[] = {{"busy", &WorkerCurves::busy},
                                                             {"batch", &WorkerCurves::batch},
                                                             {"kv_blocks_used", &WorkerCurves::blocks_used}};
inline constexpr NamedCurve<FleetCurves> kFleetCurves[] = {
    {"routed_experts", &FleetCurves::routed},         {"activated_experts", &FleetCurves::activated},
    {"layer_steps", &FleetCurves::layer_steps},       {"batch", &FleetCurves::batch},
    {"kv_bytes_per_s", &FleetCurves::kv_bytes_per_s}, {"kv_ms", &FleetCurves::kv_ms}};

}  // namespace lynx
