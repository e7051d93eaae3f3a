// Brings sequences and workers together: the queue, the placements, the frames of workers to the flow they
// belong to, and every timeout. Owns the flows. Loop thread; tick() is called every few milliseconds and
// needs no exact rhythm.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "services/router/admission_queue.h"
#include "services/router/request_flow.h"

namespace lynx {

struct DispatchConfig {
  WorkerTableConfig workers;
  FlowLimits limits;
  std::chrono::milliseconds reserve_timeout{
      2000};                                      // no answer to Reserve: the decode worker counts as failed
  std::chrono::milliseconds no_pair_grace{300};   // a queued sequence that no pair can take fails after this
  std::chrono::milliseconds resume_wait{10'000};  // the same for one whose client has tokens already
};

class Dispatcher {
 public:
  using FlowId = std::uint64_t;

  // first_request: where the ids on the wire start; random, so that two routers do not share ids.
  Dispatcher(DispatchConfig config, const std::vector<SloClass>& classes, const Clock& clock,
             WorkerSender& sender, RouterMetrics& metrics, std::uint64_t first_request);

  // Whether that many sequences may come in now; the error to answer otherwise.
  std::optional<ApiError> admit(std::size_t slo_class, std::size_t sequences);
  FlowId submit(SequenceSpec spec, std::uint32_t choice, std::shared_ptr<SequenceListener> listener);
  void cancel(FlowId id);  // the client has gone; nothing when the flow has ended
  void fail_all(const ApiError& error);

  Status check_worker(const WorkerInfo& info);
  // Returns the older registration of the same name that this one replaces.
  std::optional<WorkerId> worker_up(WorkerId id, WorkerInfo info);
  void worker_down(WorkerId id, const std::string& why);
  // May throw kj::Exception on a malformed frame, before anything has changed.
  void on_frame(WorkerId from, proto::Frame::Reader frame);
  void tick();

  bool ready() const { return workers_.context() > 0; }
  std::string why_not_ready() const;  // names both fingerprints when workers are there that do not fit
  const WorkerTable& workers() const { return workers_; }
  std::size_t queued() const { return queue_.size(); }
  std::size_t live() const { return flows_.size(); }

 private:
  enum class TimeoutKind : std::uint8_t { kDeadline, kQueue, kReserve };
  struct Timeout {
    Clock::time_point at;
    TimeoutKind kind;
    std::uint64_t id;  // a flow, or a request for kReserve
    bool operator>(const Timeout& other) const { return at > other.at; }
  };
  struct Record {
    std::unique_ptr<RequestFlow> flow;
    std::vector<std::uint64_t> prefix_keys;  // of its prompt; empty unless placed by experts
    Clock::time_point queue_deadline;
    Clock::time_point passed_by_until;             // from then on a decode worker is kept for it
    std::optional<Clock::time_point> unfit_since;  // no pair could take it from then on
  };
  using Step = std::function<FlowVerdict(RequestFlow&)>;

  void step(FlowId id, const Step& step);
  void step_request(WorkerId from, std::uint64_t request, WorkerRole role, const Step& step);
  void lose_worker(WorkerId id, const std::string& why);
  void tell_gone(const WorkerInfo& worker);
  void enqueue(FlowId id);
  void pump();
  bool start_next();
  void retire(FlowId id);
  void on_tokens(WorkerId from, proto::Tokens::Reader tokens);
  void on_handed_over(WorkerId from, proto::HandedOver::Reader done);
  void on_busy(WorkerId from, proto::Busy::Reader busy);
  void on_ended(WorkerId from, proto::Ended::Reader ended);
  void on_last_push(const LastPushes::HandOver& push, const WorkerFault* fault);  // null: it came through
  void on_heartbeat(WorkerId from, proto::Heartbeat::Reader beat);
  void expire(const Timeout& timeout);
  void fail_unplaceable(Clock::time_point now);
  void update_gauges();
  void count_workers();

  const DispatchConfig config_;
  const std::vector<SloClass>& classes_;
  const Clock& clock_;
  RouterMetrics& metrics_;
  WorkerTable workers_;
  ProfileMemory profiles_;
  FlowContext context_;
  AdmissionQueue queue_;
  RateMeter drain_rate_;
  std::unordered_map<FlowId, Record> flows_;
  std::unordered_map<std::uint64_t, FlowId> requests_;  // attempts under way
  std::vector<std::unique_ptr<RequestFlow>>
      retired_;  // ended within a call of their own; freed at the next tick
  std::priority_queue<Timeout, std::vector<Timeout>, std::greater<>> timeouts_;  // entries may be out of date
  FlowId next_flow_ = 1;
  std::uint64_t next_request_;
  Clock::time_point next_sweep_;
  struct Refusal {
    std::string message;
    Clock::time_point until;  // or until a pair is there
  };
  Refusal last_refusal_;  // of a worker that fits no other
};

}  // namespace lynx
