// Keeps a log readable when the same thing goes wrong every second: the first time it is told at once, then
// once a minute with the number of times. Pure: the caller logs and brings the time. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/core/clock.h"

namespace lynx {

class Repeated {
 public:
  static constexpr std::chrono::seconds kPeriod{60};

  // what: the same text for the same thing. Nothing: stay silent. Otherwise how often it has happened since
  // it was told last, this time included.
  std::optional<std::uint64_t> tell(const std::string& what, Clock::time_point now);

 private:
  struct Seen {
    Clock::time_point told;
    std::uint64_t since = 0;
  };
  std::map<std::string, Seen> seen_;
};

// " (12 times since it was told last)", or nothing for once.
std::string times_text(std::uint64_t times);

}  // namespace lynx
