// Everything that is known of a run, for those who draw or write it down.
#pragma once

#include <string>
#include <vector>

#include "loadtest/replay/outcome.h"
#include "loadtest/replay/report.h"
#include "loadtest/replay/timeline.h"
#include "loadtest/replay/worker_series.h"

namespace lynx {

struct RunView {
  std::string name{};  // of the run among several: "A", "lynx"
  Report report{};
  std::vector<Outcome> outcomes{};
  Timeline timeline{};
  FleetCurves fleet{};                  // empty without metrics
  std::vector<WorkerCurves> workers{};  // the same
};

// One JSON object. Keys follow `vllm bench serve`; what it does not have stands beside: trace, slice,
// speedup, lateness, warm_up, offered, errors (count by cause), slo, experts, kv, timeline, fleet, workers.
// with_requests adds a list `requests` of every single one: two such results can be compared.
std::string result_json(const RunView& run, bool with_requests);

// Reads back what result_json wrote with requests. Errors name the file and what is wrong in it.
Result<RunView> read_result(const std::string& path);
Result<RunView> parse_result(const std::string& text, const std::string& name);

}  // namespace lynx
