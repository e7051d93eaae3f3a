#include "loadtest/replay/pacer.h"

namespace lynx {

std::optional<Clock::time_point> Pacer::next_at() const {
  if (next_ == requests_.size()) return std::nullopt;
  return start_ + std::chrono::duration_cast<Clock::duration>(requests_[next_].at);
}

std::optional<Pacer::Due> Pacer::take(Clock::time_point now) {
  const auto at = next_at();
  if (!at || *at > now) return std::nullopt;
  return Due{next_++, now - *at};
}

}  // namespace lynx
