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
  double warm_up_s = 0;   // requests due before are sent, and left out of every figure but the timeline
  double duration_s = 0;  // first send to last answer
  bool interrupted = false;
  std::size_t metrics_asked = 0;                // workers whose metrics the run was told to scrape
  std::vector<std::string> metrics_problems{};  // those that could not be scraped
};

struct ClassReport {
  SloTarget slo;
  std::size_t requests = 0;
  std::size_t met = 0, met_ttft = 0, met_tpot = 0;  // failed requests meet nothing
  double attainment() const {
    return requests == 0 ? 0 : static_cast<double>(met) / static_cast<double>(requests);
  }
};

// What was asked of the server, over the time in which requests came. Achieved figures are over the whole
// judged time, the draining at the end included: below the offered ones, the server (or its queue) is behind.
struct OfferedLoad {
  double seconds = 0;  // from the end of the warm-up to the last arrival
  double requests_per_s = 0, input_tokens_per_s = 0, output_tokens_per_s = 0;
};

// Figures of the requests after the warm-up.
struct Report {
  RunFacts facts;
  std::size_t warm_up_requests = 0;
  OfferedLoad offered{};
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
  double attainment() const {
    return requests == 0 ? 0 : static_cast<double>(met()) / static_cast<double>(requests);
  }
  double judged_s() const { return facts.duration_s - facts.warm_up_s; }
  double per_second(double amount) const { return judged_s() > 0 ? amount / judged_s() : 0; }
};

Report make_report(RunFacts facts, const std::vector<Outcome>& outcomes, WorkerReport workers);

// For people, on a terminal of 100 columns.
std::string report_text(const Report& report);

}  // namespace lynx
