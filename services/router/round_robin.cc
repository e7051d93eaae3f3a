#include "services/router/policy.h"

namespace lynx {

std::size_t round_robin(std::span<const WorkerLoad> candidates, std::uint64_t last) {
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].worker > last) return i;
  return 0;
}

}  // namespace lynx
