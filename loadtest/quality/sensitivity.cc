#include "loadtest/quality/sensitivity.h"

#include <algorithm>
#include <numeric>

#include "loadtest/quality/curves.h"

namespace lynx {
namespace {

constexpr std::size_t kQuarters = 4;

// Adds the mean loss change of each quarter of the tokens, by the confidence of the exact model's routers.
// One sample per quarter and seed.
void add_quarters(const RunOutcome& run, std::vector<Estimate>& quarters) {
  std::vector<TokenOutcome> tokens = run.tokens;
  std::sort(tokens.begin(), tokens.end(),
            [](const TokenOutcome& a, const TokenOutcome& b) { return a.confidence < b.confidence; });
  quarters.resize(kQuarters);
  for (std::size_t q = 0; q < kQuarters; ++q) {
    const auto from = tokens.size() * q / kQuarters, to = tokens.size() * (q + 1) / kQuarters;
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += tokens[i].loss_change;
    quarters[q].add(sum / static_cast<double>(to - from));
  }
}

void measure_ranks(ExactRun& exact, const LockstepPlan& base, Results& results, Progress& progress) {
  const std::uint32_t k = exact.model().config().router.top_k;
  results.ranks.resize(k);
  for (std::uint32_t rank = 1; rank <= k; ++rank) {
    progress.begin("deny rank " + std::to_string(rank));
    LockstepPlan plan = base;
    plan.policy = {.kind = PolicyKind::kDenyRank, .keep = rank};
    const auto run = run_lockstep(exact, plan);
    RankLoss& r = results.ranks[rank - 1];
    r.rank = rank;
    for (const auto& d : run.documents) {
      r.loss_change.add(d.loss_change);
      r.agreement.add(d.agreement);
    }
    add_quarters(run, r.by_confidence);
  }
}

PhaseLoss& phase_of(Results& results, const std::string& policy, const std::string& phase) {
  for (auto& p : results.phases)
    if (p.policy == policy && p.phase == phase) return p;
  results.phases.push_back({policy, phase, {}, {}});
  return results.phases.back();
}

// As many remapped rows, right before the measured tokens: what their KV carries over. Against: none of the
// prefix and all of the measured ones.
void measure_phases(ExactRun& exact, const LockstepPlan& base, const PolicySetting& setting, Results& results,
                    Progress& progress) {
  const std::string& name = setting.name;
  progress.begin(setting.label + " in decode alone, in prefill alone");
  LockstepPlan decode = base;
  decode.policy = setting.policy;
  const auto in_decode = run_lockstep(exact, decode);
  LockstepPlan prefill = base;
  prefill.policy = {.kind = PolicyKind::kOff};
  prefill.prefix_policy = setting.policy;
  prefill.remap_prefix_rows = std::min(exact.first_row(), exact.measured());
  const auto in_prefill = run_lockstep(exact, prefill);
  exact.restore_prefix();
  for (const auto& [phase, run] : {std::pair{"decode", &in_decode}, std::pair{"prefill", &in_prefill}})
    for (const auto& d : run->documents) {
      phase_of(results, name, phase).loss_change.add(d.loss_change);
      phase_of(results, name, phase).kl.add(d.kl);
    }
  for (auto& c : results.confidence)
    if (c.policy == name) return add_quarters(in_decode, c.quarters);
  results.confidence.push_back({name, {}});
  add_quarters(in_decode, results.confidence.back().quarters);
}

void measure_exact_rows(ExactRun& exact, const LockstepPlan& base, const RoutePolicy& policy,
                        Results& results, Progress& progress) {
  const std::vector<std::uint32_t> counts{0, 1, std::max(2U, base.batch / 4), base.batch / 2};
  results.exact_cost.resize(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    progress.begin(std::to_string(counts[i]) + " exact rows of " + std::to_string(base.batch));
    LockstepPlan plan = base;
    plan.policy = policy;
    plan.exact_rows = counts[i];
    const auto run = run_lockstep(exact, plan);
    ExactCost& cost = results.exact_cost[i];
    cost.batch = base.batch;
    cost.exact_rows = counts[i];
    cost.activated.add(std::accumulate(run.activated.begin(), run.activated.end(), 0.0) /
                       static_cast<double>(run.activated.size()));
    for (std::size_t d = 0; d < run.documents.size(); ++d) {
      if (d % base.batch < counts[i]) continue;
      cost.others_loss_change.add(run.documents[d].loss_change);
      cost.others_mass.add(run.documents[d].mass);
    }
  }
}

}  // namespace

std::size_t count_sensitivity(const SensitivityPlan& plan, const RouterShape& shape) {
  return shape.top_k + plan.policies.size() + (plan.policies.empty() ? 0 : 4);
}

void measure_sensitivity(ExactRun& exact, const SensitivityPlan& plan, std::uint64_t seed, Results& results,
                         Progress& progress) {
  const auto order = mixed_order(exact, seed);
  const LockstepPlan base{.batch = std::min(plan.batch, static_cast<std::uint32_t>(order.size())),
                          .order = order};
  measure_ranks(exact, base, results, progress);
  for (const PolicySetting& setting : plan.policies) measure_phases(exact, base, setting, results, progress);
  if (!plan.policies.empty())
    measure_exact_rows(exact, base, plan.policies.front().policy, results, progress);
}

}  // namespace lynx
