#include <algorithm>
#include <vector>

#include "services/router/policy.h"

namespace lynx {
namespace {

// No worker is chosen that this request would bring to more than so many times the load of the least loaded
// one.
constexpr double kMostAboveLowest = 1.5;

}  // namespace

std::size_t expert_affinity(std::span<const WorkerLoad> candidates, std::uint64_t last) {
  double lowest = load_of(candidates[0]);
  for (const auto& candidate : candidates) lowest = std::min(lowest, load_of(candidate));
  std::vector<WorkerLoad> best;
  for (const auto& candidate : candidates) {
    WorkerLoad with = candidate;
    ++with.requests;
    if (load_of(candidate) > lowest && load_of(with) > kMostAboveLowest * lowest) continue;
    if (!best.empty() && candidate.new_experts > best[0].new_experts) continue;
    if (!best.empty() && candidate.new_experts < best[0].new_experts) best.clear();
    best.push_back(candidate);
  }
  const std::uint64_t chosen = best[least_loaded(best, last)].worker;
  const auto at = std::find_if(candidates.begin(), candidates.end(),
                               [&](const WorkerLoad& candidate) { return candidate.worker == chosen; });
  return static_cast<std::size_t>(at - candidates.begin());
}

}  // namespace lynx
