#include "kernels/lynx/selection.h"

#include <algorithm>
#include <compare>

#include "kernels/lynx/row_plan.h"

namespace lynx {

void Selection::reset(const RouterShape& new_shape, const DerivedPolicy& new_policy,
                      std::span<const float> new_logits, std::size_t rows) {
  shape = new_shape;
  policy = new_policy;
  logits = new_logits;
  voters.clear();
  top.resize(rows * shape.top_k);
  active.assign(shape.experts, 0);
  active_count = 0;
  digits_per_expert = 0;
  digits.clear();
  probability.clear();
}

void Selection::activate(std::uint32_t expert) {
  active_count += active[expert] == 0 ? 1 : 0;
  active[expert] = 1;
}

void Selection::activate_top_ranks(std::uint32_t ranks) {
  for (const std::uint32_t r : voters)
    for (const std::uint32_t e : top_of(r).first(ranks)) activate(e);
}

void Selection::sum_probabilities() {
  probability.assign(shape.experts, 0);
  for (const std::uint32_t r : voters) {
    const float max = row(r)[top_of(r)[0]];
    const std::uint64_t total = row_mass(shape, row(r), max);
    for (std::uint32_t e = 0; e < shape.experts; ++e)
      probability[e] += (std::uint64_t{expert_mass(shape.kind, row(r)[e], max)} << 31) / total;
  }
}

bool Selection::fills_before(std::uint32_t a, std::uint32_t b) {
  const auto order = std::lexicographical_compare_three_way(digits_of(a).begin(), digits_of(a).end(),
                                                            digits_of(b).begin(), digits_of(b).end());
  if (std::is_neq(order)) return std::is_gt(order);
  if (probability[a] != probability[b]) return probability[a] > probability[b];
  return a < b;
}

void Selection::fill_to(std::uint32_t count) {
  if (active_count >= count) return;
  if (probability.empty()) sum_probabilities();
  while (active_count < count) {
    std::uint32_t best = shape.experts;
    for (std::uint32_t e = 0; e < shape.experts; ++e)
      if (active[e] == 0 && (best == shape.experts || fills_before(e, best))) best = e;
    activate(best);
  }
}

}  // namespace lynx
