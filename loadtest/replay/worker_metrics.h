// What the workers' own metrics say about a run: the difference of two scrapes of their text endpoints. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lynx {

// "name{labels}" -> value, as exposed. Lines that are no sample are passed over; equal series of several
// texts add up.
class MetricsText {
 public:
  void add(std::string_view exposition);
  void merge(const MetricsText& other);
  // The sum over the series of this name that carry all of the labels (as written: stage="routed").
  double sum(std::string_view name, std::string_view label = {}) const;
  // Per value of one label, summed over the others.
  std::map<std::string, double> by_label(std::string_view name, std::string_view label) const;

  // *this - before, series by series; a counter that went down was born again in between and counts from
  // zero.
  MetricsText since(const MetricsText& before) const;

 private:
  std::map<std::string, double, std::less<>> samples_;
};

struct WorkerReport {
  double layer_steps = 0;         // of decode workers; 0 = nothing known about experts
  double routed_mean = 0;         // distinct experts per layer-step of the exact top-k sets
  double activated_mean = 0;      // distinct experts per layer-step that were read
  double remapped_share = 0;      // of assignments
  double retained_mass_mean = 0;  // router probability kept: mean of the layer-steps

  std::map<std::string, double> kv_bytes;  // by transport; empty when none moved
  double kv_transfers = 0;
  double kv_seconds_mean = 0;          // of one hand-over, first push to last acknowledgement
  double kv_exposed_seconds_mean = 0;  // the part of it that came after the last layer: added to TTFT
  double kv_failures = 0;
};

// The scrapes of one worker.
struct WorkerScrapes {
  MetricsText before, after;
};

// Experts are counted over the workers that mostly decode (by their own step counts): prefill is exact, and
// would blur the picture. KV is counted over all.
WorkerReport worker_report(const std::vector<WorkerScrapes>& workers);

}  // namespace lynx
