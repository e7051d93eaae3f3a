// Which sequence is placed next, on which pair, and how long the others wait.
#include <algorithm>
#include <limits>
#include <utility>

#include "services/router/dispatcher.h"

namespace lynx {

void Dispatcher::enqueue(FlowId id) {
  Record& record = flows_.at(id);
  const SequenceSpec& spec = record.flow->spec();
  const SloClass& slo_class = classes_[spec.slo_class];
  const auto now = clock_.now();
  record.unfit_since.reset();
  queue_.push(id, spec.slo_class, spec.arrival + slo_class.ttft);
  // Workers that turn it away do not prolong its wait.
  const auto since = record.flow->turned_away() ? spec.arrival : now;
  record.passed_by_until = since + slo_class.queue_timeout / 2;
  if (record.flow->started())
    return;  // its client has tokens: only the deadline and resume_wait end its wait
  record.queue_deadline = std::max(since + slo_class.queue_timeout, now);
  timeouts_.push({record.queue_deadline, TimeoutKind::kQueue, id});
}

void Dispatcher::pump() {
  while (start_next()) {
  }
  update_gauges();
}

// In order of the first-token deadlines, the first that some pair can take now. One that waits for more room
// than is free is passed by, for half of its queue timeout: then the decode worker that will fit it first
// takes none of those behind it, or a stream of small ones would fill every gap before it is wide enough.
// Whatever is at least as long as one that found no room finds none either.
bool Dispatcher::start_next() {
  const auto now = clock_.now();
  if (queue_.empty() || !workers_.any_room(now)) return false;
  std::optional<Placement> placement;
  auto no_room_for = std::numeric_limits<std::uint64_t>::max();
  WorkerId kept = 0;  // for the first whose patience is at an end
  const auto id = queue_.first_that([&](FlowId candidate) {
    const Record& record = flows_.at(candidate);
    WorkerTable::Need need = record.flow->need();
    need.kept = kept;
    need.experts = profiles_.predict(record.prefix_keys);
    const bool goes_back = !need.avoid.empty() && record.flow->goes_back(now);
    if (need.total_tokens < no_room_for) placement = workers_.place(need, now);
    if (goes_back) need.avoid = {};
    if (!placement && goes_back && need.total_tokens < no_room_for) placement = workers_.place(need, now);
    if (placement) return true;
    // One that waits for the workers that have not failed it says nothing of the others' room.
    if (need.avoid.empty()) no_room_for = std::min(no_room_for, need.total_tokens);
    if (kept == 0 && now >= record.passed_by_until) kept = workers_.first_to_fit(need, now);
    return false;
  });
  if (!id || !placement) return false;
  RequestFlow& flow = *flows_.at(*id).flow;
  queue_.erase(*id);
  drain_rate_.record(now);
  if (!flow.placed_before())
    metrics_.of(flow.spec().slo_class).queue->Observe(seconds(now - flow.spec().arrival));
  metrics_.selected(workers_.find(placement->prefill)->info.name);
  metrics_.selected(workers_.find(placement->decode)->info.name);
  const std::uint64_t request = next_request_++;
  requests_.emplace(request, *id);
  timeouts_.push({now + config_.reserve_timeout, TimeoutKind::kReserve, request});
  step(*id, [&](RequestFlow& f) { return f.begin(request, *placement); });
  return true;
}

void Dispatcher::expire(const Timeout& timeout) {
  if (timeout.kind == TimeoutKind::kReserve) {
    const auto at = requests_.find(timeout.id);
    if (at != requests_.end()) step(at->second, [](RequestFlow& flow) { return flow.on_reserve_timeout(); });
    return;
  }
  const auto at = flows_.find(timeout.id);
  if (at == flows_.end()) return;
  const RequestFlow& flow = *at->second.flow;
  if (timeout.kind == TimeoutKind::kDeadline) {
    if (!flow.started()) metrics_.rejected(RejectReason::kDeadline);
    step(timeout.id, [](RequestFlow& f) {
      return f.fail(deadline_exceeded("the request did not finish within the deadline of its class"));
    });
    return;
  }
  if (flow.state() != FlowState::kQueued || flow.started() || at->second.queue_deadline > timeout.at) return;
  metrics_.rejected(RejectReason::kQueueTimeout);
  const int wait = retry_after_seconds(queue_.size(), drain_rate_.per_second(timeout.at));
  step(timeout.id, [&](RequestFlow& f) {
    return f.fail(overloaded("no worker had room within the queue timeout of the class", wait));
  });
}

void Dispatcher::fail_unplaceable(Clock::time_point now) {
  const std::uint64_t longest = workers_.context();
  for (const FlowId id : queue_.flows()) {
    const auto at = flows_.find(id);
    if (at == flows_.end()) continue;  // a sibling's failure took it along
    auto& unfit_since = at->second.unfit_since;
    if (at->second.flow->spec().total_tokens() <= longest) {
      unfit_since.reset();
      continue;
    }
    if (!unfit_since) unfit_since = now;
    const auto patience = at->second.flow->started() ? config_.resume_wait : config_.no_pair_grace;
    if (now - *unfit_since < patience) continue;
    metrics_.rejected(RejectReason::kNoWorkers);
    const ApiError error =
        no_workers(longest == 0 ? why_not_ready() : "the workers that could hold this request are gone");
    step(id, [&](RequestFlow& flow) { return flow.fail(error); });
  }
}

void Dispatcher::update_gauges() {
  for (std::size_t i = 0; i < classes_.size(); ++i)
    metrics_.of(i).depth->Set(static_cast<double>(queue_.depth(i)));
}

}  // namespace lynx
