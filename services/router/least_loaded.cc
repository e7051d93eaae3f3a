#include <algorithm>

#include "services/router/policy.h"

namespace lynx {
namespace {

double share(std::uint64_t used, std::uint64_t slots) {
  return static_cast<double>(used) / static_cast<double>(std::max<std::uint64_t>(slots, 1));
}

}  // namespace

double load_of(const WorkerLoad& worker) {
  return std::max(share(worker.requests, worker.request_slots), share(worker.tokens, worker.token_slots));
}

std::size_t least_loaded(std::span<const WorkerLoad> candidates, std::uint64_t last) {
  double lowest = load_of(candidates[0]);
  for (const auto& candidate : candidates) lowest = std::min(lowest, load_of(candidate));
  std::size_t first = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (load_of(candidates[i]) > lowest) continue;
    if (candidates[i].worker > last) return i;
    first = std::min(first, i);
  }
  return first;
}

}  // namespace lynx
