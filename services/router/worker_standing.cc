#include "services/router/worker_standing.h"

#include <algorithm>
#include <utility>

namespace lynx {

void WorkerStanding::failed(std::uint64_t peer) {
  ++failures_;
  peers_.insert(peer);
}

std::chrono::milliseconds WorkerStanding::pause() const {
  constexpr std::uint32_t kDoublings = 6;  // 64 s: the limit is reached
  return std::min(kFirstPause * (1U << std::min(pauses_ - 1, kDoublings)), kLongestPause);
}

std::optional<std::chrono::milliseconds> WorkerStanding::put_aside(Clock::time_point now) {
  if (pauses_ == 0 && failures_ < kFailures) return std::nullopt;
  if (aside(now) && !trial_) return std::nullopt;  // of what was under way when it was put aside
  ++pauses_;
  trial_ = false;
  until_ = now + pause();
  return pause();
}

bool WorkerStanding::placed(Clock::time_point now) {
  if (pauses_ == 0 || aside(now)) return false;
  // Until the trial's end it takes no other; one that ends neither way, as when its client hangs up, is
  // followed by the next after as long a pause.
  trial_ = true;
  until_ = now + pause();
  return true;
}

void WorkerStanding::not_tried(Clock::time_point now) {
  if (std::exchange(trial_, false)) until_ = now;
}

bool WorkerStanding::succeeded() {
  const bool was_aside = pauses_ > 0;
  *this = {};
  return was_aside;
}

}  // namespace lynx
