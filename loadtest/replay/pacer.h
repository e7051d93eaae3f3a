// Which request is due: the open loop's clockwork. It never waits for an answer; it only looks at the time.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "common/core/clock.h"
#include "loadtest/replay/workload.h"

namespace lynx {

class Pacer {
 public:
  // The requests stay the caller's, and are in order of time.
  Pacer(std::span<const PlannedRequest> requests, Clock::time_point start)
      : requests_(requests), start_(start) {}

  struct Due {
    std::size_t index = 0;
    Clock::duration lateness{0};  // how long ago it should have been sent
  };
  // The next request whose time has come, each once.
  std::optional<Due> take(Clock::time_point now);

  // When take() gives the next one; nullopt when all are taken.
  std::optional<Clock::time_point> next_at() const;

 private:
  std::span<const PlannedRequest> requests_;
  Clock::time_point start_;
  std::size_t next_ = 0;
};

}  // namespace lynx
