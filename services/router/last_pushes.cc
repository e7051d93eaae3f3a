#include "services/router/last_pushes.h"

namespace lynx {

void LastPushes::add(std::uint64_t request, const Placement& placement, Clock::time_point now) {
  open_[request] = {request, placement.prefill, placement.decode, now + kPatience};
}

std::optional<LastPushes::HandOver> LastPushes::take(std::uint64_t request, WorkerId from) {
  const auto at = open_.find(request);
  if (at == open_.end() || (at->second.prefill != from && at->second.decode != from)) return std::nullopt;
  const HandOver out = at->second;
  open_.erase(at);
  return out;
}

std::vector<LastPushes::HandOver> LastPushes::take_overdue(Clock::time_point now) {
  std::vector<HandOver> out;
  std::erase_if(open_, [&](const auto& entry) {
    if (entry.second.until > now) return false;
    out.push_back(entry.second);
    return true;
  });
  return out;
}

}  // namespace lynx
