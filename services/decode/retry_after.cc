#include "services/decode/retry_after.h"

#include <algorithm>

namespace lynx {
namespace {

constexpr double kUnknownStep = 0.02;
constexpr std::chrono::milliseconds kSoonest{10};
constexpr std::chrono::milliseconds kLatest{30'000};

}  // namespace

std::chrono::milliseconds retry_after(std::vector<Holder> holders, const Shortage& shortage) {
  std::sort(holders.begin(), holders.end(),
            [](const Holder& a, const Holder& b) { return a.remaining_tokens < b.remaining_tokens; });
  std::uint64_t freed = 0;
  std::uint32_t steps = 0;
  for (const Holder& holder : holders) {
    freed += holder.blocks;
    steps = holder.remaining_tokens;
    if (freed >= shortage.blocks) break;
  }
  const double step = shortage.step_seconds > 0 ? shortage.step_seconds : kUnknownStep;
  const double milliseconds = std::min(steps * step * 1000, static_cast<double>(kLatest.count()));
  return std::clamp(std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds)), kSoonest, kLatest);
}

}  // namespace lynx
