// lynx: LYNX remapping (arXiv 2411.08982, section 4).
//
// The score of an expert is S = sum over votes of B^-bin, with B the number of voters. Its base-B digits are
// the vote counts per bin, so S is held exactly as these integers. A row votes for an expert at most once;
// hence a count reaches B only when all voters agree on one bin, and then it carries into the digit before.
// After the carry, digits compare like S itself, and "any vote before the last bin, or all votes in it"
// reads: some digit before the last is not zero.
//
// With one voter every vote carries, so every expert of the row stays: B = 1 is the identity, by the same
// rule.
#include <algorithm>

#include "kernels/lynx/fixed_point.h"
#include "kernels/lynx/selection.h"

namespace lynx {
namespace {

// digits[e] = {carry of bin 0, bin 0, ..., bin beta-1}.
void count_votes(Selection& s) {
  s.digits_per_expert = s.policy.bins + 1;
  s.digits.assign(std::size_t{s.shape.experts} * s.digits_per_expert, 0);
  for (const std::uint32_t r : s.voters) {
    const auto row = s.row(r);
    const auto top = s.top_of(r);
    for (const std::uint32_t e : top) {
      const float gap = gap_below(row[top[0]], row[e]);
      ++s.digits_of(e)[1 + affinity_bin(gap, s.policy.alpha, s.policy.bins - 1)];
    }
  }
}

void carry(std::span<std::uint32_t> digits, std::size_t base) {
  for (std::size_t i = 1; i < digits.size(); ++i) {
    if (digits[i] != base) continue;
    digits[i] = 0;
    ++digits[i - 1];
    return;  // all votes were here
  }
}

}  // namespace

void select_lynx(Selection& s) {
  count_votes(s);
  for (std::uint32_t e = 0; e < s.shape.experts; ++e) {
    const auto digits = s.digits_of(e);
    carry(digits, s.voters.size());
    const auto decisive = digits.first(digits.size() - 1);
    if (std::any_of(decisive.begin(), decisive.end(), [](std::uint32_t d) { return d != 0; })) s.activate(e);
  }
}

}  // namespace lynx
