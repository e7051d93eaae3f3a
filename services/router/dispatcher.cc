#include "services/router/dispatcher.h"

#include <utility>

#include "common/core/log.h"

namespace lynx {
namespace {

constexpr std::size_t kProfileBytes = std::size_t{64} << 20U;  // of a large model: ten thousand profiles
constexpr std::chrono::milliseconds kSweepPeriod{100};         // of what is not worth doing on every tick
// A worker that is refused asks again every few seconds: one that does not has gone.
constexpr std::chrono::seconds kRefusalStands{10};

std::vector<std::uint64_t> limits_of(const std::vector<SloClass>& classes) {
  std::vector<std::uint64_t> limits;
  for (const auto& slo_class : classes) limits.push_back(slo_class.queue_limit);
  return limits;
}

}  // namespace

Dispatcher::Dispatcher(DispatchConfig config, const std::vector<SloClass>& classes, const Clock& clock,
                       WorkerSender& sender, RouterMetrics& metrics, std::uint64_t first_request)
    : config_(config),
      classes_(classes),
      clock_(clock),
      metrics_(metrics),
      workers_(config.workers),
      profiles_(kProfileBytes),
      context_{clock, workers_, sender, metrics, config.limits, config.workers.policy == expert_affinity},
      queue_(limits_of(classes)),
      next_request_(first_request) {}

std::optional<ApiError> Dispatcher::admit(std::size_t slo_class, std::size_t sequences) {
  if (!ready()) {
    metrics_.rejected(RejectReason::kNoWorkers);
    return no_workers(why_not_ready());
  }
  if (queue_.has_room(slo_class, sequences)) return std::nullopt;
  metrics_.rejected(RejectReason::kQueueFull);
  const int wait = retry_after_seconds(queue_.size(), drain_rate_.per_second(clock_.now()));
  return overloaded("the queue of class '" + classes_[slo_class].name + "' is full", wait);
}

Dispatcher::FlowId Dispatcher::submit(SequenceSpec spec, std::uint32_t choice,
                                      std::shared_ptr<SequenceListener> listener) {
  const FlowId id = next_flow_++;
  timeouts_.push({spec.deadline, TimeoutKind::kDeadline, id});
  const SloClass& slo_class = classes_[spec.slo_class];
  if (context_.count_experts) flows_[id].prefix_keys = ProfileMemory::keys_of(spec.prompt);
  flows_[id].flow =
      std::make_unique<RequestFlow>(context_, std::move(spec), slo_class, choice, std::move(listener));
  enqueue(id);
  pump();
  return id;
}

void Dispatcher::step(FlowId id, const Step& step) {
  const auto at = flows_.find(id);
  if (at == flows_.end()) return;
  queue_.erase(id);  // what ends here must not be placed by the pump that a sibling's cancel sets off
  RequestFlow* flow = at->second.flow.get();
  const FlowVerdict verdict = step(*flow);
  if (verdict == FlowVerdict::kContinue) return;
  requests_.erase(flow->request());
  if (verdict == FlowVerdict::kDone) return retire(id);
  if (flows_.contains(id)) enqueue(id);  // not when its listener cancelled it meanwhile
}

// A frame counts only when it comes from the worker that the attempt was given to.
void Dispatcher::step_request(WorkerId from, std::uint64_t request, WorkerRole role, const Step& run) {
  const auto at = requests_.find(request);
  if (at == requests_.end()) return;  // of an attempt that is over
  const Placement& placement = flows_.at(at->second).flow->placement();
  if (from != (role == WorkerRole::kPrefill ? placement.prefill : placement.decode)) return;
  step(at->second, run);
}

void Dispatcher::retire(FlowId id) {
  const auto at = flows_.find(id);
  if (at == flows_.end()) return;
  queue_.erase(id);
  requests_.erase(at->second.flow->request());
  retired_.push_back(std::move(at->second.flow));
  flows_.erase(at);
}

void Dispatcher::cancel(FlowId id) {
  const auto at = flows_.find(id);
  if (at == flows_.end()) return;
  at->second.flow->cancel();
  retire(id);
  pump();
}

void Dispatcher::fail_all(const ApiError& error) {
  std::vector<FlowId> ids;
  for (const auto& [id, record] : flows_) ids.push_back(id);
  for (const FlowId id : ids) step(id, [&](RequestFlow& flow) { return flow.fail(error); });
}

Status Dispatcher::check_worker(const WorkerInfo& info) {
  const auto now = clock_.now();
  Status status = workers_.check(info, now);
  if (!status && status.error().code == ErrorCode::kIncompatible)
    last_refusal_ = {status.error().message, now + kRefusalStands};
  return status;
}

std::string Dispatcher::why_not_ready() const {
  std::string why = workers_.explain_no_pair();
  if (clock_.now() < last_refusal_.until) why += "; refused: " + last_refusal_.message;
  return why;
}

std::optional<WorkerId> Dispatcher::worker_up(WorkerId id, WorkerInfo info) {
  std::optional<WorkerId> replaced;
  if (const Worker* before = workers_.find(info.name)) replaced = before->id;
  if (replaced) worker_down(*replaced, "worker '" + info.name + "' registered anew");
  log::info("{} worker '{}' incarnation {:x} is up: {}", to_string(info.role), info.name, info.incarnation,
            to_string(info.fingerprint));
  workers_.add(id, std::move(info), clock_.now());
  if (ready()) last_refusal_ = {};
  if (!ready()) log::warn("not ready: {}", why_not_ready());
  pump();
  return replaced;
}

void Dispatcher::worker_down(WorkerId id, const std::string& why) {
  if (workers_.find(id) == nullptr) return;
  const WorkerInfo gone = workers_.find(id)->info;
  log::warn("worker '{}' is gone: {}", gone.name, why);
  workers_.remove(id);
  lose_worker(id, why);
  tell_gone(gone);
}

// Prefill workers need not wait for the deadlines of what they still push there. After lose_worker: what this
// router had there is cancelled by then.
void Dispatcher::tell_gone(const WorkerInfo& worker) {
  if (worker.role != WorkerRole::kDecode) return;
  capnp::MallocMessageBuilder message;
  write_gone(message, worker);
  for (const auto& [id, other] : workers_.all())
    if (other.info.role == WorkerRole::kPrefill) static_cast<void>(context_.sender.send(id, message));
}

void Dispatcher::lose_worker(WorkerId id, const std::string& why) {
  std::vector<FlowId> hit;
  for (const auto& [flow_id, record] : flows_)
    if (record.flow->state() != FlowState::kQueued) hit.push_back(flow_id);
  for (const FlowId flow_id : hit)
    step(flow_id, [&](RequestFlow& flow) { return flow.on_worker_lost(id, why); });
  pump();
}

void Dispatcher::tick() {
  retired_.clear();
  const auto now = clock_.now();
  for (const WorkerId id : workers_.mark_missing(now)) {
    const std::string why = "worker '" + workers_.find(id)->info.name + "' stopped sending heartbeats";
    log::warn("{}", why);
    lose_worker(id, why);
    tell_gone(workers_.find(id)->info);
  }
  while (!timeouts_.empty() && timeouts_.top().at <= now) {
    const Timeout timeout = timeouts_.top();
    timeouts_.pop();
    expire(timeout);
  }
  if (now >= next_sweep_) {
    next_sweep_ = now + kSweepPeriod;
    for (const auto& push : context_.last_pushes.take_overdue(now))
      for (const WorkerId id : {push.prefill, push.decode}) send_cancel(context_, push.request, id);
    fail_unplaceable(now);
    count_workers();
  }
  pump();
}

void Dispatcher::count_workers() {
  for (const auto role : {WorkerRole::kPrefill, WorkerRole::kDecode}) {
    std::size_t registered = 0;
    std::size_t serving = 0;
    std::size_t aside = 0;
    for (const auto& [id, worker] : workers_.all()) {
      if (worker.info.role != role) continue;
      ++registered;
      if (worker.serves()) ++serving;
      if (worker.serves() && worker.standing.aside(clock_.now())) ++aside;
    }
    metrics_.workers(to_string(role), serving - aside, aside, registered);
  }
}

}  // namespace lynx
