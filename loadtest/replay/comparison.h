// Two runs of the same workload, request by request: how much faster the second was, and how sure that is.
// Pure; the same runs and seed give the same figures.
//
// Pairing takes the request out of the difference: its lengths, class, text and arrival are equal on both
// sides. What is left is correlated in time (neighbours share a queue), so the intervals come from a circular
// block bootstrap (Politis & Romano 1992): runs of consecutive pairs are drawn, not single ones, of a length
// of the cube root of their number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "loadtest/replay/outcome.h"
#include "loadtest/replay/slo.h"

namespace lynx {

struct Interval {
  double value = 0, low = 0, high = 0;  // low..high holds the true value in 95 of 100 repetitions
};

// A latency over the pairs that completed on both sides. Speed-ups are A / B: above 1, B is faster.
struct PairedLatency {
  std::string name{};  // TTFT, TPOT, ITL, end to end
  std::size_t pairs = 0;
  double mean_a_ms = 0, mean_b_ms = 0, p50_a_ms = 0, p50_b_ms = 0, p99_a_ms = 0, p99_b_ms = 0;
  Interval mean_speedup{}, p50_speedup{}, p99_speedup{};
};

struct Comparison {
  std::string name_a = "A", name_b = "B";
  std::size_t pairs = 0;  // requests judged on both sides
  std::size_t completed_a = 0, completed_b = 0;
  double attainment_a = 0, attainment_b = 0;
  double late_a_ms = 0, late_b_ms = 0;  // p99 of sending: a run that was not on time compares little
  Interval attainment_gain{};           // B - A, in shares of the requests
  std::vector<PairedLatency> latencies{};
};

struct CompareOptions {
  std::uint64_t seed = 0;
  std::size_t resamples = 1000;
};

// Requests sent during warm-up are left out. Error: runs that are not of one workload (their numbers of
// requests, classes or planned times differ), or nothing to compare.
Result<Comparison> compare(const std::vector<Outcome>& a, const std::vector<Outcome>& b,
                           const std::vector<SloTarget>& slos, const CompareOptions& options = {});

std::string comparison_text(const Comparison& comparison);  // for a terminal of 100 columns

}  // namespace lynx
