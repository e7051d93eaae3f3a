// Sequences that ended on their first token while their last KV pushes were under way. How those end says as
// much of the two workers as any other transfer: a worker whose requests are all so short would otherwise be
// known by its failures alone. So neither side is told to cancel before they have ended or had their time.
// Pure: no clock of its own. Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/core/clock.h"
#include "services/router/worker_table.h"

namespace lynx {

class LastPushes {
 public:
  static constexpr std::chrono::milliseconds kPatience{2000};
  struct HandOver {
    std::uint64_t request = 0;
    WorkerId prefill = 0;
    WorkerId decode = 0;
    Clock::time_point until;
  };

  void add(std::uint64_t request, const Placement& placement, Clock::time_point now);
  // Takes that of a request out; nothing when the worker is neither of its two.
  std::optional<HandOver> take(std::uint64_t request, WorkerId from);
  // Takes out those that have had their time.
  std::vector<HandOver> take_overdue(Clock::time_point now);

 private:
  std::map<std::uint64_t, HandOver> open_;
};

}  // namespace lynx
