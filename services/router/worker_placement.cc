// Which pair takes a request, what is reserved on it, and how that is given back.
#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <tuple>
#include <utility>

#include "services/router/worker_table.h"

namespace lynx {
namespace {

bool contains(std::span<const WorkerId> ids, WorkerId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// How gladly a worker is taken: 0 is best.
int grade(const Worker& worker, std::span<const WorkerId> failed, Clock::time_point now) {
  return (worker.standing.aside(now) ? 2 : 0) + (contains(failed, worker.id) ? 1 : 0);
}

// When idle.
bool could_hold(const Worker& worker, std::uint64_t tokens) {
  return worker.serves() && worker.info.usable_context() >= tokens &&
         (worker.info.role == WorkerRole::kPrefill ||
          worker.info.held_tokens(tokens) <= worker.info.pool_tokens());
}

}  // namespace

std::uint64_t WorkerTable::request_slots(const Worker& worker) const {
  if (worker.info.role == WorkerRole::kPrefill) return config_.prefill_slots;
  return static_cast<std::uint64_t>(std::ceil(worker.info.max_batch * config_.decode_overcommit));
}

bool WorkerTable::has_room(const Worker& worker, Clock::time_point now) const {
  return worker.serves() && worker.busy_until <= now && worker.requests < request_slots(worker);
}

bool WorkerTable::any_room(Clock::time_point now) const {
  const auto some = [&](WorkerRole role) {
    return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
      return entry.second.info.role == role && has_room(entry.second, now);
    });
  };
  return some(WorkerRole::kPrefill) && some(WorkerRole::kDecode);
}

std::vector<const Worker*> WorkerTable::candidates(WorkerRole role, const Need& need, Clock::time_point now,
                                                   int worst) const {
  std::vector<const Worker*> out;
  for (const auto& [id, worker] : workers_) {
    if (worker.info.role != role || id == need.kept || !has_room(worker, now)) continue;
    if (worker.info.usable_context() < need.total_tokens) continue;
    const bool holds =
        worker.tokens + worker.info.held_tokens(need.total_tokens) <= worker.info.pool_tokens();
    if (role == WorkerRole::kDecode && !holds) continue;
    if (grade(worker, need.avoid, now) <= worst) out.push_back(&worker);
  }
  return out;
}

// Whatever its load: a request waits for the worker that has not failed it. For each role by itself: the only
// prefill worker is taken again, a decode worker that failed is not.
std::optional<WorkerTable::Worst> WorkerTable::worst_taken(const Need& need, Clock::time_point now) const {
  constexpr int kNone = std::numeric_limits<int>::max();
  struct Best {  // of the workers of one fingerprint
    const Fingerprint* fingerprint;
    Worst worst{kNone, kNone};
  };
  std::vector<Best> all;  // seldom more than one
  for (const auto& [id, worker] : workers_) {
    if (!could_hold(worker, need.total_tokens)) continue;
    auto at = std::find_if(all.begin(), all.end(),
                           [&](const Best& b) { return *b.fingerprint == worker.info.fingerprint; });
    if (at == all.end()) at = all.insert(at, {&worker.info.fingerprint});
    int& least = worker.info.role == WorkerRole::kPrefill ? at->worst.prefill : at->worst.decode;
    least = std::min(least, grade(worker, need.avoid, now));
  }
  std::optional<Worst> best;
  for (const auto& [fingerprint, worst] : all) {
    if (worst.prefill == kNone || worst.decode == kNone) continue;
    if (!best || std::tie(worst.decode, worst.prefill) < std::tie(best->decode, best->prefill)) best = worst;
  }
  return best;
}

const Worker* WorkerTable::pick(std::span<const Worker* const> from, const SharedProfile& experts,
                                WorkerId& last) const {
  std::vector<WorkerLoad> loads;
  loads.reserve(from.size());
  for (const Worker* worker : from)
    loads.push_back({worker->id, worker->requests, request_slots(*worker), worker->tokens,
                     worker->info.pool_tokens(), experts ? worker->experts.new_experts(*experts) : 0});
  const Worker* chosen = from[config_.policy(loads, last)];
  last = chosen->id;
  return chosen;
}

std::optional<Placement> WorkerTable::place(const Need& need, Clock::time_point now) {
  const auto worst = worst_taken(need, now);
  if (!worst) return std::nullopt;
  auto prefills = candidates(WorkerRole::kPrefill, need, now, worst->prefill);
  auto decodes = candidates(WorkerRole::kDecode, need, now, worst->decode);
  const auto fits = [](const Worker* one) {
    return [one](const Worker* other) { return one->info.fingerprint == other->info.fingerprint; };
  };
  std::erase_if(decodes,
                [&](const Worker* d) { return std::none_of(prefills.begin(), prefills.end(), fits(d)); });
  if (decodes.empty()) return std::nullopt;
  const Worker* decode = pick(decodes, need.experts, last_decode_);
  std::erase_if(prefills, [&](const Worker* p) { return !fits(decode)(p); });
  const Worker* prefill = pick(prefills, nullptr, last_prefill_);

  Placement placement{
      prefill->id, decode->id, need.prefill_tokens, decode->info.held_tokens(need.total_tokens), true,
      true,        {}};
  const auto reserve = [&](WorkerId id, std::uint64_t tokens) {
    Worker& worker = workers_.at(id);
    ++worker.requests;
    worker.tokens += tokens;
    return worker.standing.placed(now);
  };
  placement.prefill_tried = reserve(placement.prefill, placement.prefill_tokens);
  placement.decode_tried = reserve(placement.decode, placement.decode_tokens);
  set_experts(placement, need.experts);
  return placement;
}

WorkerId WorkerTable::first_to_fit(const Need& need, Clock::time_point now) const {
  const auto worst = worst_taken(need, now);
  if (!worst) return 0;
  const auto serves = [&](const Worker& worker, WorkerRole role) {
    return worker.info.role == role && worker.serves() && worker.info.usable_context() >= need.total_tokens;
  };
  WorkerId nearest = 0;
  std::uint64_t least = 0;
  for (const Worker& decode : std::views::values(workers_)) {
    const std::uint64_t held = decode.info.held_tokens(need.total_tokens);
    if (!serves(decode, WorkerRole::kDecode) || held > decode.info.pool_tokens()) continue;
    if (grade(decode, need.avoid, now) > worst->decode) continue;
    const bool paired = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
      return serves(entry.second, WorkerRole::kPrefill) &&
             entry.second.info.fingerprint == decode.info.fingerprint;
    });
    if (!paired) continue;
    const std::uint64_t wanted = decode.tokens + held;
    const std::uint64_t missing = wanted - std::min(wanted, decode.info.pool_tokens());
    if (nearest != 0 && missing >= least) continue;
    nearest = decode.id;
    least = missing;
  }
  return nearest;
}

void WorkerTable::release(WorkerId id, std::uint64_t tokens) {
  const auto at = workers_.find(id);
  if (at == workers_.end()) return;
  --at->second.requests;
  at->second.tokens -= tokens;
}

void WorkerTable::set_experts(Placement& placement, SharedProfile experts) {
  const auto at = workers_.find(placement.decode);
  if (!placement.decode_held || at == workers_.end()) return;
  ExpertLoad& load = at->second.experts;
  if (const SharedProfile before = std::exchange(placement.experts, nullptr)) load.remove(*before);
  if (!experts || !load.fits(*experts)) return;
  load.add(*experts);
  placement.experts = std::move(experts);
}

void WorkerTable::give_back_trials(Placement& placement, Clock::time_point now) {
  const auto give_back = [&](bool& tried, WorkerId id) {
    const auto at = workers_.find(id);
    if (std::exchange(tried, false) && at != workers_.end()) at->second.standing.not_tried(now);
  };
  give_back(placement.prefill_tried, placement.prefill);
  give_back(placement.decode_tried, placement.decode);
}

void WorkerTable::release_prefill(Placement& placement) {
  if (std::exchange(placement.prefill_held, false)) release(placement.prefill, placement.prefill_tokens);
}

void WorkerTable::release_decode(Placement& placement) {
  set_experts(placement, nullptr);
  if (std::exchange(placement.decode_held, false)) release(placement.decode, placement.decode_tokens);
}

}  // namespace lynx
