// share: an expert stays if some row gives it at least c/k of the probability of its own top-k.
#include "kernels/lynx/row_plan.h"
#include "kernels/lynx/selection.h"

namespace lynx {

void select_share(Selection& s) {
  for (const std::uint32_t r : s.voters) {
    const auto row = s.row(r);
    const auto top = s.top_of(r);
    const float max = row[top[0]];
    std::uint64_t sum = 0;
    for (const std::uint32_t e : top) sum += expert_mass(s.shape.kind, row[e], max);
    // mass / sum >= c / k, in integers: at most 31 + 10 + 16 bits on the left, 41 + 19 on the right.
    for (const std::uint32_t e : top) {
      const std::uint64_t mass = expert_mass(s.shape.kind, row[e], max);
      if (((mass * s.shape.top_k) << 16) >= sum * s.policy.share_q16) s.activate(e);
    }
  }
}

}  // namespace lynx
