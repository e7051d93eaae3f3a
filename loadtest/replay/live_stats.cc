#include "loadtest/replay/live_stats.h"

#include <cmath>

#include "loadtest/replay/statistics.h"

namespace lynx {
namespace {

Summary within_window(const std::deque<std::pair<Clock::time_point, double>>& samples,
                      Clock::time_point now) {
  std::vector<double> values;
  for (const auto& [at, value] : samples)
    if (at > now - LiveStats::kWindow) values.push_back(value);
  return summarize(std::move(values));
}

}  // namespace

void LiveStats::add(Samples& samples, Clock::time_point now, double value) {
  while (!samples.empty() && samples.front().first <= now - kWindow) samples.pop_front();
  samples.emplace_back(now, value);
}

LiveStats::Recent LiveStats::recent(Clock::time_point now) const {
  const Summary ttft = within_window(ttft_, now), itl = within_window(itl_, now),
                met = within_window(met_, now);
  return {.ttft_p50_ms = ttft.p50,
          .ttft_p99_ms = ttft.p99,
          .itl_p50_ms = itl.p50,
          .itl_p99_ms = itl.p99,
          .ended = met.count,
          .met = static_cast<std::size_t>(std::llround(met.mean * static_cast<double>(met.count)))};
}

}  // namespace lynx
