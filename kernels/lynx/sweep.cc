// sweep: experts go one by one, the least wanted of the batch first, as long as every row keeps the given
// part of its own top-k probability. The most a rule that looks at all rows together was found to save for a
// promise to each row; each step waits for the one before, which a device pays for. For the laboratory.
#include <algorithm>
#include <numeric>

#include "kernels/lynx/row_plan.h"
#include "kernels/lynx/selection.h"

namespace lynx {
namespace {

struct Sweep {
  std::vector<std::uint64_t> slack;   // [B] probability that the row may still lose, Q16 of its own top-k
  std::vector<std::uint32_t> shares;  // [B, k] Q16
  std::vector<std::uint64_t> wanted;  // [N] summed shares
  std::vector<std::uint32_t> order;   // [N]
};

void read_shares(const Selection& s, Sweep& w) {
  w.slack.assign(s.top.size() / s.shape.top_k, 65536 - s.policy.part_q16);
  w.shares.assign(s.top.size(), 0);
  w.wanted.assign(s.shape.experts, 0);
  for (const std::uint32_t r : s.voters) {
    const auto row = s.row(r);
    const auto top = s.top_of(r);
    std::uint64_t sum = 0;
    for (const std::uint32_t e : top) sum += expert_mass(s.shape.kind, row[e], row[top[0]]);
    for (std::size_t i = 0; i < top.size() && sum > 0; ++i) {
      const std::uint64_t mass = expert_mass(s.shape.kind, row[top[i]], row[top[0]]);
      // Rounded up: a row never loses more than its slack.
      w.shares[r * top.size() + i] = static_cast<std::uint32_t>(((mass << 16) + sum - 1) / sum);
      w.wanted[top[i]] += w.shares[r * top.size() + i];
    }
  }
}

// What row r loses with the expert, or 0.
std::uint32_t share_of(const Selection& s, const Sweep& w, std::uint32_t r, std::uint32_t expert) {
  const auto top = s.top_of(r);
  const auto at = std::find(top.begin(), top.end(), expert);
  return at == top.end() ? 0 : w.shares[r * top.size() + static_cast<std::size_t>(at - top.begin())];
}

bool is_first_of_a_row(const Selection& s, std::uint32_t expert) {
  return std::any_of(s.voters.begin(), s.voters.end(),
                     [&](std::uint32_t r) { return s.top_of(r)[0] == expert; });
}

bool can_go(const Selection& s, const Sweep& w, std::uint32_t expert) {
  return !is_first_of_a_row(s, expert) && std::all_of(s.voters.begin(), s.voters.end(), [&](std::uint32_t r) {
    return share_of(s, w, r, expert) <= w.slack[r];
  });
}

}  // namespace

void select_sweep(Selection& s) {
  thread_local Sweep w;
  s.activate_top_ranks(s.shape.top_k);
  read_shares(s, w);
  w.order.resize(s.shape.experts);
  std::iota(w.order.begin(), w.order.end(), 0U);
  std::stable_sort(w.order.begin(), w.order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return w.wanted[a] < w.wanted[b]; });
  for (const std::uint32_t e : w.order) {
    if (s.active_count <= s.shape.top_k) return;
    if (s.active[e] == 0 || !can_go(s, w, e)) continue;
    for (const std::uint32_t r : s.voters) w.slack[r] -= share_of(s, w, r, e);
    s.active[e] = 0;
    --s.active_count;
  }
}

}  // namespace lynx
