#include "kernels/lynx/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/core/check.h"
#include "kernels/lynx/row_plan.h"
#include "kernels/lynx/selection.h"

namespace lynx {
namespace {

struct Workspace {
  Selection selection;
  std::vector<std::uint8_t> votes;        // [B] 1 = the row is in selection.voters
  std::vector<std::uint32_t> active;      // A, ascending
  std::vector<std::uint32_t> per_expert;  // [N]
};

bool has_nan(std::span<const float> row) {
  bool found = false;
  for (const float z : row) found |= std::isnan(z);
  return found;
}

void read_rows(Workspace& w, const RowMask& rows) {
  Selection& s = w.selection;
  w.votes.assign(rows.live.size(), 0);
  for (std::uint32_t r = 0; r < rows.live.size(); ++r) {
    if (rows.live[r] == 0 || has_nan(s.row(r))) continue;
    w.votes[r] = 1;
    s.voters.push_back(r);
    top_experts(s.row(r), s.top_of(r));
  }
}

void select(Selection& s, PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kOff:
      return select_off(s);
    case PolicyKind::kLynx:
      return select_lynx(s);
    case PolicyKind::kShare:
      return select_share(s);
    case PolicyKind::kOea:
      return select_oea(s);
    case PolicyKind::kXshare:
      return select_xshare(s);
    case PolicyKind::kTopKReduced:
      return select_top_k_reduced(s);
    case PolicyKind::kEnergy:
      return select_energy(s);
    case PolicyKind::kSweep:
      return select_sweep(s);
    case PolicyKind::kDenyRank:
      return select_off(s);  // each row is denied its own
  }
}

bool is_exact(const RowMask& rows, std::uint32_t r) { return !rows.exact.empty() && rows.exact[r] != 0; }

// The parts that every policy shares: what must stay whatever the policy says, and k experts for every row to
// take.
void choose_active(Workspace& w, PolicyKind kind, const RowMask& rows) {
  Selection& s = w.selection;
  if (s.voters.empty()) return;
  select(s, kind);
  if (!(kind == PolicyKind::kEnergy && s.shape.top_k == 1)) s.activate_top_ranks(1);
  for (const std::uint32_t r : s.voters)
    if (is_exact(rows, r))
      for (const std::uint32_t e : s.top_of(r)) s.activate(e);
  if (kind != PolicyKind::kTopKReduced) s.fill_to(s.shape.top_k);
}

void list_active(Workspace& w) {
  w.active.clear();
  for (std::uint32_t e = 0; e < w.selection.active.size(); ++e)
    if (w.selection.active[e] != 0) w.active.push_back(e);
}

struct RowRule {
  std::uint32_t slots = 0;   // that the row fills
  std::uint32_t denied = 0;  // 1 + the rank that it loses; 0 = none
};

RowRule rule_of(const Selection& s, PolicyKind kind, bool exact) {
  RowRule rule{.slots = s.shape.top_k};
  if (exact) return rule;
  if (kind == PolicyKind::kTopKReduced) rule.slots = s.policy.keep;
  if (kind == PolicyKind::kDenyRank && s.shape.top_k < s.shape.experts) rule.denied = s.policy.keep;
  return rule;
}

void route_voter(ExpertPlan& plan, const Workspace& w, std::uint32_t r, const RowRule& rule,
                 std::uint64_t& retained_q24) {
  const Selection& s = w.selection;
  const std::size_t first = std::size_t{r} * plan.top_k;
  const std::uint32_t slots = rule.slots;
  const auto chosen = std::span(plan.experts).subspan(first, slots);
  const std::uint32_t kept = rule.denied > 0 ? deny(s.row(r), s.top_of(r), rule.denied - 1, chosen)
                                             : refill(s.row(r), s.top_of(r), w.active, s.active, chosen);
  const std::uint32_t retained = weigh(s.shape, s.policy.weights, s.row(r), s.top_of(r), chosen, kept,
                                       std::span(plan.weights).subspan(first, slots));
  plan.row_kept[r] = kept;
  plan.row_mass_q24[r] = retained;
  plan.stats.remapped += slots - kept;
  plan.stats.retained_mass_min = std::min(plan.stats.retained_mass_min, retained / 16777216.0);
  retained_q24 += retained;
}

// A row with a NaN: some k experts, so that shapes hold, and its own output alone is lost.
void route_broken(ExpertPlan& plan, std::uint32_t r, std::uint64_t& retained_q24) {
  const std::size_t first = std::size_t{r} * plan.top_k;
  for (std::uint32_t i = 0; i < plan.top_k; ++i) {
    plan.experts[first + i] = i;
    plan.weights[first + i] = 1.0F / static_cast<float>(plan.top_k);
  }
  retained_q24 += 1U << 24;
}

void route_rows(ExpertPlan& plan, const Workspace& w, PolicyKind kind, const RowMask& rows) {
  std::uint64_t retained_q24 = 0;  // an integer, so that the order of rows leaves no trace in the sum
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    if (rows.live[r] == 0) continue;
    plan.stats.assignments += plan.top_k;
    if (w.votes[r] != 0)
      route_voter(plan, w, r, rule_of(w.selection, kind, is_exact(rows, r)), retained_q24);
    else
      route_broken(plan, r, retained_q24);
  }
  plan.stats.retained_mass_sum = static_cast<double>(retained_q24) / 16777216.0;
}

std::uint32_t count_routed(Workspace& w, const ExpertPlan& plan, const RowMask& rows) {
  auto& seen = w.per_expert;
  seen.assign(w.selection.shape.experts, 0);
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    if (rows.live[r] == 0) continue;
    if (w.votes[r] != 0)
      for (const std::uint32_t e : w.selection.top_of(r)) seen[e] = 1;
    else
      std::fill_n(seen.begin(), plan.top_k, 1);
  }
  return std::accumulate(seen.begin(), seen.end(), 0U);
}

// A counting sort of the assignments by expert; rows stay ascending within an expert.
void transpose(ExpertPlan& plan, std::vector<std::uint32_t>& per_expert, std::uint32_t experts) {
  per_expert.assign(experts, 0);
  for (const std::uint32_t e : plan.experts)
    if (e != ExpertPlan::kNoExpert) ++per_expert[e];
  plan.active.clear();
  plan.offsets.assign(1, 0);
  for (std::uint32_t e = 0; e < experts; ++e) {
    if (per_expert[e] == 0) continue;
    plan.active.push_back(e);
    const std::uint32_t begin = plan.offsets.back();
    plan.offsets.push_back(begin + per_expert[e]);
    per_expert[e] = begin;  // from here on: where the expert's next row goes
  }
  plan.row_of.resize(plan.offsets.back());
  plan.slot_of.resize(plan.offsets.back());
  for (std::uint32_t i = 0; i < plan.experts.size(); ++i) {
    if (plan.experts[i] == ExpertPlan::kNoExpert) continue;
    const std::uint32_t place = per_expert[plan.experts[i]]++;
    plan.row_of[place] = i / plan.top_k;
    plan.slot_of[place] = i % plan.top_k;
  }
}

}  // namespace

void route_reference(ExpertPlan& plan, std::span<const float> logits, const RouterShape& shape,
                     const RoutePolicy& policy, const RowMask& rows) {
  LYNX_CHECK(check_policy(shape, policy).ok(), "a policy that was not checked at start-up");
  LYNX_CHECK(logits.size() == rows.live.size() * shape.experts, "logits are [B, N]");
  LYNX_CHECK(rows.exact.empty() || rows.exact.size() == rows.live.size(), "exact is [B] or empty");
  thread_local Workspace w;
  w.selection.reset(shape, derive(shape, policy), logits, rows.live.size());
  read_rows(w, rows);
  choose_active(w, policy.kind, rows);
  list_active(w);

  plan.rows = static_cast<std::uint32_t>(rows.live.size());
  plan.top_k = shape.top_k;
  plan.experts.assign(std::size_t{plan.rows} * shape.top_k, ExpertPlan::kNoExpert);
  plan.weights.assign(std::size_t{plan.rows} * shape.top_k, 0.0F);
  plan.row_kept.assign(plan.rows, shape.top_k);
  plan.row_mass_q24.assign(plan.rows, 1U << 24);
  plan.stats = {};
  route_rows(plan, w, policy.kind, rows);
  plan.stats.routed_experts = count_routed(w, plan, rows);
  transpose(plan, w.per_expert, shape.experts);
  plan.stats.activated_experts = static_cast<std::uint32_t>(plan.active.size());
}

}  // namespace lynx
