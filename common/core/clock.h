// Time is handed in, so that schedulers and policies are pure and tests never sleep.
#pragma once

#include <chrono>

namespace lynx {

class Clock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;
  virtual time_point now() const = 0;  // any thread
};

class SteadyClock final : public Clock {
 public:
  time_point now() const override { return std::chrono::steady_clock::now(); }
};

// For tests: stands still until advanced. One thread.
class ManualClock final : public Clock {
 public:
  time_point now() const override { return now_; }
  void advance(duration by) { now_ += by; }

 private:
  time_point now_{};
};

inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace lynx
