#include "common/core/repeated.h"

namespace lynx {
namespace {

constexpr std::size_t kMostTexts = 256;  // strangers may make up any number of them

}  // namespace

std::optional<std::uint64_t> Repeated::tell(const std::string& what, Clock::time_point now) {
  const auto [at, is_new] = seen_.try_emplace(what, Seen{now});
  Seen& seen = at->second;
  ++seen.since;
  if (!is_new && now - seen.told < kPeriod) return std::nullopt;
  const std::uint64_t times = seen.since;
  seen = {now, 0};
  if (seen_.size() > kMostTexts) {
    std::erase_if(seen_, [&](const auto& entry) { return now - entry.second.told >= kPeriod; });
    if (seen_.size() > kMostTexts) seen_.clear();
  }
  return times;
}

std::string times_text(std::uint64_t times) {
  return times < 2 ? "" : " (" + std::to_string(times) + " times since it was told last)";
}

}  // namespace lynx
