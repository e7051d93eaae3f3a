// energy: an expert stays if what the batch would lose without it is worth reading it.
//
// A row's output is a sum of k expert outputs weighted by its shares q of its own top-k probability. Taking
// an expert away is an error of about q in that sum, and the loss of a model grows with the square of a small
// error: for the batch with the sum over its rows of q^2, the *energy* of the expert. That is what the batch
// pays for the removal; what it gains is one expert less to read, the same for each of them. So one threshold
// on the energy decides, whatever the batch: 1/N, one row's worth of energy spread evenly over all experts.
// In a small batch there are fewer other experts to move to, hence the factor B/(B+1).
//
// For that the rows' squares add up, an expert with one strong vote stays like one with many weak ones, and
// the square makes the weak ones cheap: a row that spreads its probability evenly has little to lose.
//
// What every token is promised: the experts that it gets hold at least half of the router probability of
// those it chose itself. The first ranks of a row that make up that half stay whatever the energy says.
//
// With one expert to a row (k = 1) each share is 1 and says nothing. There, q is the margin of the first over
// the second, (p1 - p2) / p1: a row without confidence has two experts that are nearly as good, and little to
// lose. The promise is the same: a row whose half is not served by what stays brings its own first.
#include <algorithm>

#include "kernels/lynx/row_plan.h"
#include "kernels/lynx/selection.h"

namespace lynx {
namespace {

// Of a Q16 share. Q24, so that the sum over 64 rows fits 32 bits on a device.
std::uint64_t square(std::uint64_t share_q16) { return (share_q16 * share_q16) >> 8; }

// The promise for k > 1.
void activate_half(Selection& s, std::uint32_t r, std::uint64_t sum) {
  const auto row = s.row(r);
  const auto top = s.top_of(r);
  std::uint64_t before = 0;
  for (const std::uint32_t e : top) {
    if (2 * before >= sum) return;
    s.activate(e);
    before += expert_mass(s.shape.kind, row[e], row[top[0]]);
  }
}

void add_shares(Selection& s, std::uint32_t r) {
  const auto row = s.row(r);
  const auto top = s.top_of(r);
  std::uint64_t sum = 0;
  for (const std::uint32_t e : top) sum += expert_mass(s.shape.kind, row[e], row[top[0]]);
  if (sum == 0) return;  // all sigmoids vanish: nothing to lose
  for (const std::uint32_t e : top)
    s.energy[e] += square((std::uint64_t{expert_mass(s.shape.kind, row[e], row[top[0]])} << 16) / sum);
  activate_half(s, r, sum);
}

void add_margin(Selection& s, std::uint32_t r) {
  const auto row = s.row(r);
  const std::uint32_t first = s.top_of(r)[0];
  const std::uint64_t best = expert_mass(s.shape.kind, row[first], row[first]);
  if (best == 0) return;
  std::uint64_t second = 0;
  for (std::uint32_t e = 0; e < s.shape.experts; ++e)
    if (e != first) second = std::max(second, std::uint64_t{expert_mass(s.shape.kind, row[e], row[first])});
  s.energy[first] += square(((best - second) << 16) / best);
}

// The promise for k = 1. What stays by its energy is judged before any row adds its own.
bool is_served(const Selection& s, std::uint32_t r) {
  const auto row = s.row(r);
  const std::uint32_t first = s.top_of(r)[0];
  const std::uint64_t best = expert_mass(s.shape.kind, row[first], row[first]);
  for (std::uint32_t e = 0; e < s.shape.experts; ++e)
    if (s.active[e] != 0 && std::uint64_t{2} * expert_mass(s.shape.kind, row[e], row[first]) >= best)
      return true;
  return false;
}

void serve_each(Selection& s) {
  s.unserved.clear();
  for (const std::uint32_t r : s.voters)
    if (!is_served(s, r)) s.unserved.push_back(r);
  for (const std::uint32_t r : s.unserved) s.activate(s.top_of(r)[0]);
}

}  // namespace

void select_energy(Selection& s) {
  if (s.voters.size() == 1) return s.activate_top_ranks(s.shape.top_k);  // nobody to share with
  s.energy.assign(s.shape.experts, 0);
  for (const std::uint32_t r : s.voters)
    if (s.shape.top_k == 1)
      add_margin(s, r);
    else
      add_shares(s, r);
  // energy >= factor * B / ((B + 1) N), with Q24 and Q16 factors: at most 24 + 10 + 2 log2(B) bits.
  const std::uint64_t rows = s.voters.size();
  for (std::uint32_t e = 0; e < s.shape.experts; ++e)
    if (s.energy[e] * s.shape.experts * (rows + 1) >= (rows * s.policy.energy_q16) << 8) s.activate(e);
  if (s.shape.top_k == 1) serve_each(s);
}

}  // namespace lynx
