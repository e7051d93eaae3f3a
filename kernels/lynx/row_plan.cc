#include "kernels/lynx/row_plan.h"

#include <algorithm>

#include "kernels/lynx/selection.h"

namespace lynx {
namespace {

// Puts expert at its place among the `count` ranked ones of out; the last falls off when out is full.
std::uint32_t insert_ranked(std::span<const float> row, std::span<std::uint32_t> out, std::uint32_t count,
                            std::uint32_t expert) {
  if (count == out.size()) {
    if (!ranks_before(row, expert, out[count - 1])) return count;
    --count;
  }
  std::uint32_t place = count;
  for (; place > 0 && ranks_before(row, expert, out[place - 1]); --place) out[place] = out[place - 1];
  out[place] = expert;
  return count + 1;
}

std::uint64_t sum_of_masses(const RouterShape& shape, std::span<const float> row, float max,
                            std::span<const std::uint32_t> experts) {
  std::uint64_t sum = 0;
  for (const std::uint32_t e : experts) sum += expert_mass(shape.kind, row[e], max);
  return sum;
}

}  // namespace

std::uint64_t row_mass(const RouterShape& shape, std::span<const float> row, float max) {
  if (shape.kind == RouterKind::kSigmoid) return kMassOne;
  std::uint64_t sum = 0;
  for (const float z : row) sum += exp_minus(gap_below(max, z));
  return sum;
}

void top_experts(std::span<const float> row, std::span<std::uint32_t> out) {
  std::uint32_t count = 0;
  for (std::uint32_t e = 0; e < row.size(); ++e) count = insert_ranked(row, out, count, e);
}

std::uint32_t refill(std::span<const float> row, std::span<const std::uint32_t> top,
                     std::span<const std::uint32_t> active, std::span<const std::uint8_t> is_active,
                     std::span<std::uint32_t> out) {
  std::uint32_t kept = 0;
  for (const std::uint32_t e : top)
    if (is_active[e] != 0 && kept < out.size()) out[kept++] = e;
  const std::span<std::uint32_t> rest = out.subspan(kept);
  std::uint32_t count = 0;
  if (!rest.empty())
    for (const std::uint32_t e : active)
      if (ranks_before(row, top.back(), e)) count = insert_ranked(row, rest, count, e);
  return kept;
}

std::uint32_t deny(std::span<const float> row, std::span<const std::uint32_t> top, std::uint32_t rank,
                   std::span<std::uint32_t> out) {
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < top.size(); ++i)
    if (i != rank) out[kept++] = top[i];
  const std::span<std::uint32_t> last = out.subspan(kept, 1);
  std::uint32_t count = 0;
  for (std::uint32_t e = 0; e < row.size(); ++e)
    if (ranks_before(row, top.back(), e)) count = insert_ranked(row, last, count, e);
  return kept;
}

std::uint32_t weigh(const RouterShape& shape, WeightRule rule, std::span<const float> row,
                    std::span<const std::uint32_t> top, std::span<const std::uint32_t> chosen,
                    std::uint32_t kept, std::span<float> weights) {
  const float max = row[top[0]];
  const std::uint64_t top_sum = sum_of_masses(shape, row, max, top);
  const std::uint64_t kept_sum = sum_of_masses(shape, row, max, chosen.first(kept));
  const std::uint64_t whole =
      rule == WeightRule::kRenormalised ? sum_of_masses(shape, row, max, chosen) : top_sum;
  const float target = shape.norm_topk_prob
                           ? 1.0F
                           : static_cast<float>(top_sum) / static_cast<float>(row_mass(shape, row, max));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const bool weighs = i < kept || rule != WeightRule::kKept;
    const std::uint32_t mass = weighs ? expert_mass(shape.kind, row[chosen[i]], max) : 0;
    // All sigmoids of a row can vanish; the proportions are then lost, the sum is not.
    const float part = whole == 0 ? 1.0F / static_cast<float>(chosen.size())
                                  : static_cast<float>(mass) / static_cast<float>(whole);
    weights[i] = part * target;
  }
  return top_sum == 0 ? 1U << 24 : static_cast<std::uint32_t>((kept_sum << 24) / top_sum);
}

}  // namespace lynx
