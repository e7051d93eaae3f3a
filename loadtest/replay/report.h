// The figures of a run, from what became of its requests. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/replay/outcome.h"
#include "loadtest/replay/slo.h"
#include "loadtest/replay/statistics.h"
#include "loadtest/replay/trace.h"
#include "loadtest/replay/worker_metrics.h"
#include "loadtest/replay/workload.h"

namespace lynx {

// What was replayed, for the record.
struct RunFacts {
  std::string date{};  // ISO 8601, UTC
  std::string model{};
  std::string target{};  // host:port
  std::string trace_name{}, trace_format{}, trace_sha256{};
  std::size_t trace_rows = 0;  // good rows of the file
  RejectedRows rejected{};
  WorkloadOptions options{};
  double length_factor = 1;
  std::vector<SloTarget> slos{};
  double duration_s = 0;  // first send to last answer
  bool interrupted = false;
  std::vector<std::string> metrics_problems{};  // workers that could not be scraped
};

struct ClassReport {
  SloTarget slo;
  std::size_t requests = 0;
  std::size_t met = 0, met_ttft = 0, met_tpot = 0;  // failed requests meet nothing
  double attainment() const {
    return requests == 0 ? 0 : static_cast<double>(met) / static_cast<double>(requests);
  }
};

struct Report {
  RunFacts facts;
  std::size_t requests = 0, completed = 0;
  std::map<std::string, std::size_t> failures{};      // by cause
  std::map<std::string, std::string> first_detail{};  // one example for each cause
  std::uint64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  Summary ttft_ms{}, tpot_ms{}, itl_ms{}, e2e_ms{};   // of completed requests
  Summary lateness_ms{};                              // of all that were sent
  double peak_output_tokens_per_s = 0;                // best full second
  std::size_t peak_concurrency = 0;
  std::vector<ClassReport> classes{};
  WorkerReport workers{};

  std::size_t met() const;  // requests inside all objectives of their class
  double per_second(double amount) const { return facts.duration_s > 0 ? amount / facts.duration_s : 0; }
};

Report make_report(RunFacts facts, const std::vector<Outcome>& outcomes, WorkerReport workers);

// For people, on a terminal of 100 columns.
std::string report_text(const Report& report);

// One JSON object. Keys follow `vllm bench serve`; what it does not have stands beside: trace, slice,
// speedup, lateness, errors (count by cause), slo, experts, kv. With outcomes, a list `requests` of every
// single one.
std::string report_json(const Report& report, const std::vector<Outcome>* outcomes = nullptr);

}  // namespace lynx
