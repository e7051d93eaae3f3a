// Whether a worker's transfers come through. One whose transfers fail again and again is put aside: it gets
// no request while another can take it. When its pause is over it is tried with one request; as long as the
// trials fail the pause doubles, and the first success ends it all. Pure: no clock of its own. Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

#include "common/core/clock.h"

namespace lynx {

class WorkerStanding {
 public:
  static constexpr std::uint32_t kFailures = 3;  // in a row
  static constexpr std::chrono::milliseconds kFirstPause{1000};
  static constexpr std::chrono::milliseconds kLongestPause{60'000};

  // peer: the worker at the transfer's other end.
  void failed(std::uint64_t peer);
  // Whether so many failed in a row, with several peers: then the fault is rather here than there.
  bool fails_with_all() const { return failures_ >= kFailures && peers_.size() > 1; }
  // After failed(): for how long it is now put aside; nothing when it is not, or was before.
  std::optional<std::chrono::milliseconds> put_aside(Clock::time_point now);
  // A request is placed there. Returns whether it is the trial: it has been put aside and its pause is over.
  bool placed(Clock::time_point now);
  // The trial ended before a transfer could begin: the next request is the trial.
  void not_tried(Clock::time_point now);
  // Returns whether it had been put aside.
  bool succeeded();

  bool aside(Clock::time_point now) const { return pauses_ > 0 && now < until_; }
  std::uint32_t pauses() const { return pauses_; }  // put aside so often since its last success

 private:
  std::chrono::milliseconds pause() const;

  std::uint32_t failures_ = 0;     // since its last success
  std::set<std::uint64_t> peers_;  // of those failures
  std::uint32_t pauses_ = 0;
  Clock::time_point until_;
  bool trial_ = false;  // one is under way
};

}  // namespace lynx
