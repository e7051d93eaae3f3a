#include "loadtest/capacity/capacity_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace lynx {
namespace {

constexpr std::uint32_t kSparePrefill =
    4;  // prefill workers beyond the least that are tried for a smaller sum

std::string percent(double share) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f %%", 100 * share);
  return out;
}

// The smallest count in [1, most] that is enough; more is never worse, but for noise that does not matter
// here.
std::optional<std::uint32_t> least(std::uint32_t most, const std::function<bool(std::uint32_t)>& enough) {
  std::uint32_t high = 1;
  while (!enough(high)) {
    if (high == most) return std::nullopt;
    high = std::min(most, 2 * high);
  }
  std::uint32_t low = high / 2;  // not enough, or 0
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

// What the mean load asks for.
void fill_least(CapacityPlan& plan, const std::vector<PlannedRequest>& requests, const WorkerCost& cost,
                const CapacityGoal& goal) {
  double output = 0, context = 0, prefill = 0;
  for (const PlannedRequest& r : requests) {
    output += r.output_tokens;
    context += (r.input_tokens + r.output_tokens / 2.0) * r.output_tokens;  // each token's own
    prefill += cost.prefill_seconds(r.input_tokens);
  }
  plan.mean_context = output > 0 ? context / output : 0;
  const double span = std::chrono::duration<double>(requests.back().at).count();
  const auto& c = cost.coefficients();
  for (double batch = 1;
       batch <= c.max_batch && batch * plan.mean_context <= static_cast<double>(c.kv_tokens); ++batch)
    if (cost.step_seconds(batch, batch * plan.mean_context) <= goal.tpot_s) plan.largest_batch = batch;
  if (span <= 0) return;
  plan.least_prefill = prefill / span;
  if (plan.largest_batch > 0)
    plan.least_decode = output / span *
                        cost.step_seconds(plan.largest_batch, plan.largest_batch * plan.mean_context) /
                        plan.largest_batch;
}

// Why no number of workers helps: what a request would see alone on a fleet.
std::string hopeless(const std::vector<PlannedRequest>& requests, const WorkerCost& cost,
                     const CapacityGoal& goal) {
  std::size_t unfit = 0, slow_prompt = 0, slow_token = 0;
  for (const PlannedRequest& r : requests) {
    const double held = static_cast<double>(r.input_tokens) + r.output_tokens;
    unfit += held > static_cast<double>(cost.coefficients().kv_tokens) ? 1 : 0;
    slow_prompt += cost.prefill_seconds(r.input_tokens) > goal.ttft_s ? 1 : 0;
    slow_token += r.output_tokens > 1 && cost.step_seconds(1, held) > goal.tpot_s ? 1 : 0;
  }
  const auto share = [&](std::size_t n) {
    return percent(static_cast<double>(n) / static_cast<double>(requests.size()));
  };
  return share(slow_prompt) + " of the prompts take longer than the TTFT objective even alone, " +
         share(slow_token) + " of the requests step slower than the TPOT objective even alone, " +
         share(unfit) + " fit no worker's KV pool";
}

}  // namespace

FleetResult judge(const std::vector<PlannedRequest>& requests, const WorkerCost& cost, FleetSize fleet,
                  const CapacityGoal& goal) {
  const SimulatedRun run = simulate(requests, cost, fleet);
  FleetResult out{.fleet = fleet};
  std::vector<double> ttft, tpot;
  double ttft_met = 0, tpot_met = 0, both = 0;
  for (const SimulatedRequest& r : run.requests) {
    if (!r.served) continue;
    ttft.push_back(1e3 * r.ttft_s);
    if (r.tpot_s > 0) tpot.push_back(1e3 * r.tpot_s);
    const bool first = r.ttft_s <= goal.ttft_s, rest = r.tpot_s <= goal.tpot_s;
    ttft_met += first ? 1 : 0;
    tpot_met += rest ? 1 : 0;
    both += first && rest ? 1 : 0;
  }
  const auto all = static_cast<double>(std::max<std::size_t>(run.requests.size(), 1));
  out.ttft_met = ttft_met / all;
  out.tpot_met = tpot_met / all;
  out.both_met = both / all;
  out.ttft_ms = summarize(std::move(ttft));
  out.tpot_ms = summarize(std::move(tpot));
  out.prefill_busy = run.prefill_busy;
  out.decode_busy = run.decode_busy;
  out.mean_batch = run.mean_batch;
  out.mean_unique = run.mean_unique;
  return out;
}

CapacityPlan plan_capacity(const std::vector<PlannedRequest>& requests, const WorkerCost& cost,
                           const CapacityGoal& goal) {
  CapacityPlan plan;
  if (requests.empty()) {
    plan.why_not = "the workload holds no request";
    return plan;
  }
  fill_least(plan, requests, cost, goal);
  // TTFT depends on the prefill workers alone: the first token leaves before decode begins.
  const auto prefill = least(goal.most_workers, [&](std::uint32_t n) {
    return judge(requests, cost, {.prefill = n, .decode = 0}, goal).ttft_met >= goal.attainment;
  });
  // Just enough prefill leaves decode no request to lose, so a few more may make the sum smaller.
  for (std::uint32_t extra = 0; prefill && extra <= kSparePrefill && *prefill + extra <= goal.most_workers;
       ++extra) {
    const std::uint32_t m = *prefill + extra;
    if (plan.answer && m + 1 >= plan.answer->fleet.total()) break;
    const auto decode = least(goal.most_workers, [&](std::uint32_t n) {
      return judge(requests, cost, {m, n}, goal).both_met >= goal.attainment;
    });
    if (decode && (!plan.answer || m + *decode < plan.answer->fleet.total()))
      plan.answer = judge(requests, cost, {m, *decode}, goal);
  }
  if (!plan.answer) {
    plan.why_not = hopeless(requests, cost, goal);
    return plan;
  }
  const FleetSize best = plan.answer->fleet;
  for (const FleetSize fleet :
       {FleetSize{best.prefill, best.decode - 1}, FleetSize{best.prefill - 1, best.decode}, best,
        FleetSize{best.prefill, best.decode + 1}, FleetSize{best.prefill + 1, best.decode}})
    if (fleet.prefill > 0 && fleet.decode > 0) plan.nearby.push_back(judge(requests, cost, fleet, goal));
  return plan;
}

}  // namespace lynx
