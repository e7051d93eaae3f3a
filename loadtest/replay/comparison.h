// Two runs of the same workload, request by request: how much faster the second was, and how sure that is.
// Pure; the same runs and seed give the same figures.
//
// Pairing takes the request out of the difference: its lengths, class, text and arrival are equal on both
// sides. What is left is correlated in time (neighbours share a queue), hence the block bootstrap.
#pragma once

#include <string>
#include <vector>

#include "common/core/result.h"
#include "loadtest/replay/block_bootstrap.h"
#include "loadtest/replay/outcome.h"
#include "loadtest/replay/run_view.h"
#include "loadtest/replay/slo.h"

namespace lynx {

// A latency over the pairs that completed on both sides. Speed-ups are A / B: above 1, B is faster.
struct PairedLatency {
  std::string name{};  // TTFT, TPOT, ITL, end to end
  std::size_t pairs = 0;
  double mean_a_ms = 0, mean_b_ms = 0, p50_a_ms = 0, p50_b_ms = 0, p99_a_ms = 0, p99_b_ms = 0;
  Interval mean_speedup{}, p50_speedup{}, p99_speedup{};
};

// A figure of the decode workers' steps, over the seconds of both runs. A second is a pair: the same requests
// came in it.
struct PairedExperts {
  std::string name{};
  double a = 0, b = 0;
  Interval ratio{};  // A / B
};

struct Comparison {
  std::string name_a = "A", name_b = "B";
  std::size_t pairs = 0;  // requests judged on both sides
  std::size_t completed_a = 0, completed_b = 0;
  double attainment_a = 0, attainment_b = 0;
  double late_a_ms = 0, late_b_ms = 0;  // p99 of sending: a run that was not on time compares little
  Interval attainment_gain{};           // B - A, in shares of the requests
  std::vector<PairedLatency> latencies{};
  std::vector<PairedExperts> experts{};  // empty: the workers were not sampled, or for too short a time
};

// Requests sent during warm-up are left out. Error: runs that are not of one workload (their numbers of
// requests, classes or planned times differ), or nothing to compare.
Result<Comparison> compare(const std::vector<Outcome>& a, const std::vector<Outcome>& b,
                           const std::vector<SloTarget>& slos, const BootstrapOptions& options = {});
// The same with the names and the experts of the runs.
Result<Comparison> compare(const RunView& a, const RunView& b, const BootstrapOptions& options = {});

// Samples whose time lies in the warm-up are left out. Both runs are sampled with one period; what has no
// like on the other side at the same time of the run (a sample was missed) is left out.
std::vector<PairedExperts> compare_experts(const FleetCurves& a, const FleetCurves& b, double warm_up_s,
                                           const BootstrapOptions& options = {});

std::string comparison_text(const Comparison& comparison);  // for a terminal of 100 columns

}  // namespace lynx
