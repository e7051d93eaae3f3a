#include "services/prefill/push_timeline.h"

#include <algorithm>

namespace lynx {

std::size_t PushTimeline::posted(Clock::time_point at) {
  pushes_.push_back({at, at});
  return pushes_.size() - 1;
}

void PushTimeline::finished(std::size_t push, Clock::time_point at) { pushes_[push].end = at; }

Clock::time_point PushTimeline::last_end() const {
  return std::max_element(pushes_.begin(), pushes_.end(),
                          [](const Interval& a, const Interval& b) { return a.end < b.end; })
      ->end;
}

double PushTimeline::transfer_seconds() const {
  return pushes_.empty() ? 0 : seconds(last_end() - pushes_.front().begin);
}

double PushTimeline::exposed_seconds() const {
  return pushes_.empty() ? 0 : std::max(0.0, seconds(last_end() - computed_));
}

double PushTimeline::overlap_ratio() const {
  Clock::duration busy{0};
  Clock::duration hidden{0};
  Clock::time_point covered = Clock::time_point::min();
  for (const Interval& push : pushes_) {  // sorted by begin: the union in one sweep
    const Clock::time_point begin = std::max(push.begin, covered);
    if (push.end <= begin) continue;
    busy += push.end - begin;
    hidden += std::max(Clock::duration::zero(), std::min(push.end, computed_) - begin);
    covered = push.end;
  }
  return busy.count() == 0 ? 1 : seconds(hidden) / seconds(busy);
}

}  // namespace lynx
