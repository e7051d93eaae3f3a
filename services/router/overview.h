// What the live page shows, as one JSON object: requests in flight, latencies of the last minute against
// their objectives, what the workers' heartbeats say, and five minutes of history. Sampled once a second,
// whether or not anybody looks. Loop thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "services/router/dispatcher.h"
#include "services/router/recent_histogram.h"

namespace lynx {

class Overview {
 public:
  static constexpr std::chrono::seconds kPeriod{1};
  static constexpr std::size_t kWindow = 60;    // samples that quantiles and attainment look back on
  static constexpr std::size_t kHistory = 300;  // samples of the curves

  // Everything handed in outlives the overview.
  Overview(const Dispatcher& dispatcher, RouterMetrics& metrics, const std::vector<SloClass>& classes,
           std::string model);

  void sample();
  std::string to_json(Clock::time_point now) const;

 private:
  struct ClassWatch {
    const SloClass* promise;
    RouterMetrics::PerClass* metrics;
    RecentHistogram ttft, tpot, itl;
    std::deque<std::pair<double, double>> kept;  // sequences [met, all] since birth, per sample
  };
  struct Moment {
    std::size_t in_flight = 0, queued = 0;
    double tokens = 0;                 // that reached clients in this period
    double met = 0, judged = 0;        // sequences that ended in this period
    double routed = 0, activated = 0;  // mean of the decode workers that stepped; 0 = none did
  };

  const Dispatcher& dispatcher_;
  const std::string model_;
  std::vector<ClassWatch> classes_;
  std::deque<Moment> history_;
};

}  // namespace lynx
