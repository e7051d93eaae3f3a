// What the last few seconds were like, for the live view: latencies as they come, of requests that are still
// under way too. Loop thread.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "common/core/clock.h"

namespace lynx {

class LiveStats {
 public:
  static constexpr std::chrono::seconds kWindow{10};

  void first_piece(Clock::time_point now, Clock::duration ttft) { add(ttft_, now, 1e3 * seconds(ttft)); }
  void next_piece(Clock::time_point now, Clock::duration gap) { add(itl_, now, 1e3 * seconds(gap)); }
  void ended(Clock::time_point now, bool within_slo) { add(met_, now, within_slo ? 1 : 0); }

  struct Recent {
    double ttft_p50_ms = 0, ttft_p99_ms = 0, itl_p50_ms = 0, itl_p99_ms = 0;  // 0 = none
    std::size_t ended = 0, met = 0;
  };
  Recent recent(Clock::time_point now) const;

 private:
  using Samples = std::deque<std::pair<Clock::time_point, double>>;
  static void add(Samples& samples, Clock::time_point now, double value);

  Samples ttft_, itl_, met_;
};

}  // namespace lynx
