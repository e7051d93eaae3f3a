#include "services/router/request_flow.h"

#include <algorithm>
#include <utility>

#include "common/core/log.h"
#include "services/router/transfer_outcome.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestBusy{1};
constexpr milliseconds kLongestBusy{500};
constexpr milliseconds kDeadLinkPause{
    100};  // until its loss is reported, a worker whose link is down is not picked

// How long it waits for workers that have not failed it: a pause in a stream is noticed sooner. Not at once,
// or a worker that fails fast would use up all of its attempts while the others are full for a moment.
constexpr milliseconds kAvoidance{1000};
constexpr milliseconds kAvoidanceOfStream{200};

// False when the fault lies in the request itself; otherwise another worker may do better. That holds for a
// deadline too: what passed may be a lease's, and the request's own is watched by the router.
bool worth_another_worker(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return false;
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kNotFound:
    case ErrorCode::kBusy:
    case ErrorCode::kCancelled:
    case ErrorCode::kUnavailable:
    case ErrorCode::kIncompatible:
    case ErrorCode::kPermission:
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      return true;
  }
  return true;
}

}  // namespace

void send_cancel(FlowContext& context, std::uint64_t request, WorkerId worker) {
  capnp::MallocMessageBuilder message;
  write_cancel(message, request);
  // A link that is down needs no Cancel: a worker drops what came over a link that it lost.
  static_cast<void>(context.sender.send(worker, message));
}

RequestFlow::RequestFlow(FlowContext& context, SequenceSpec spec, const SloClass& slo_class,
                         std::uint32_t choice, std::shared_ptr<SequenceListener> listener)
    : context_(context),
      spec_(std::move(spec)),
      slo_class_(slo_class),
      choice_(choice),
      listener_(std::move(listener)) {}

WorkerTable::Need RequestFlow::need() const {
  return {spec_.total_tokens(), static_cast<std::uint32_t>(spec_.prompt.size() + generated_.size()), avoid_};
}

AttemptHead RequestFlow::head() const {
  const auto remaining = std::chrono::duration_cast<milliseconds>(spec_.deadline - context_.clock.now());
  return {attempt_.request, spec_, generated_, remaining, slo_class_.name};
}

FlowVerdict RequestFlow::begin(std::uint64_t request, const Placement& placement) {
  attempt_ = Attempt{request, placement, false, true, {}};
  state_ = FlowState::kReserving;
  placed_before_ = true;
  capnp::MallocMessageBuilder message;
  write_reserve(message, head());
  if (context_.sender.send(placement.decode, message)) return FlowVerdict::kContinue;
  context_.workers.mark_busy(placement.decode, context_.clock.now() + kDeadLinkPause);
  return requeue(false);
}

FlowVerdict RequestFlow::on_reserved(proto::Lease::Reader lease) {
  if (state_ != FlowState::kReserving) return FlowVerdict::kContinue;
  const Worker* decode = context_.workers.find(attempt_.placement.decode);
  if (decode == nullptr) return requeue(false);
  capnp::MallocMessageBuilder message;
  write_prefill(message, head(), lease, decode->info, context_.count_experts);
  state_ = FlowState::kPrefilling;
  attempt_.prefill_open = true;
  attempt_.prefill_sent = context_.sender.send(attempt_.placement.prefill, message);
  if (attempt_.prefill_sent) return FlowVerdict::kContinue;
  context_.workers.mark_busy(attempt_.placement.prefill, context_.clock.now() + kDeadLinkPause);
  return requeue(false);
}

FlowVerdict RequestFlow::on_busy(WorkerId worker, milliseconds retry_after) {
  const auto pause = std::clamp(retry_after, kShortestBusy, kLongestBusy);
  context_.workers.mark_busy(worker, context_.clock.now() + pause);
  close_side(worker);
  attempt_.prefill_sent = false;
  return requeue(true);
}

FlowVerdict RequestFlow::on_first_token(GeneratedToken token) {
  if (state_ != FlowState::kPrefilling) return FlowVerdict::kContinue;
  if (token.index != generated_.size())
    return failed_at(attempt_.placement.prefill, {ErrorCode::kCorrupt, "the first token has a wrong index"});
  state_ = FlowState::kDecoding;
  context_.workers.release_prefill(attempt_.placement);
  FlowVerdict verdict = accept(std::move(token));
  const auto early = std::exchange(attempt_.early, {});
  for (auto at = early.begin(); at != early.end() && verdict == FlowVerdict::kContinue; ++at)
    verdict = on_decode_token(*at);
  return verdict;
}

void RequestFlow::on_handed_over(SharedProfile experts) {
  transferred();
  if (experts) context_.workers.set_experts(attempt_.placement, std::move(experts));
}

void RequestFlow::transferred() {
  if (std::exchange(attempt_.prefill_open, false))
    count_transferred(context_, attempt_.placement.prefill, attempt_.placement.decode);
}

FlowVerdict RequestFlow::on_decode_token(GeneratedToken token) {
  if (token.index < generated_.size()) return FlowVerdict::kContinue;  // the first token, told by both sides
  if (state_ == FlowState::kPrefilling) {
    if (token.index == generated_.size()) return FlowVerdict::kContinue;
    if (token.index != generated_.size() + 1 + attempt_.early.size())
      return failed_at(attempt_.placement.decode, {ErrorCode::kCorrupt, "a token index does not follow"});
    attempt_.early.push_back(std::move(token));
    return FlowVerdict::kContinue;
  }
  if (state_ != FlowState::kDecoding) return FlowVerdict::kContinue;
  // It decodes, so every layer has arrived.
  transferred();
  if (token.finish != TokenFinish::kNone) attempt_.decode_open = false;
  return accept(std::move(token));
}

FlowVerdict RequestFlow::accept(GeneratedToken token) {
  if (token.index != generated_.size())
    return failed_at(attempt_.placement.decode, {ErrorCode::kCorrupt, "a token index does not follow"});
  generated_.push_back(token.id);
  const bool told_last = token.finish != TokenFinish::kNone;
  // max_tokens is held here too: whatever a worker does, the client gets exactly that many.
  if (generated_.size() == spec_.sampling.max_tokens && token.finish == TokenFinish::kNone)
    token.finish = TokenFinish::kLength;
  const bool stopped = listener_->on_token(choice_, token);
  if (state_ == FlowState::kDone) return FlowVerdict::kDone;  // the listener found its client gone
  return stopped || token.finish != TokenFinish::kNone ? finish(told_last) : FlowVerdict::kContinue;
}

FlowVerdict RequestFlow::on_ended(WorkerId worker, const WorkerFault& fault) {
  const bool handed_over = worker == attempt_.placement.prefill && !attempt_.prefill_open;
  if (handed_over) return FlowVerdict::kContinue;
  // Both ends tell of a transfer that failed, and the attempt is over with the first word: it counts once.
  const bool transfer = attempt_.prefill_open && is_transfer_fault(fault, state_ == FlowState::kDecoding);
  if (transfer)
    count_failed_transfer(context_, attempt_.placement.prefill, attempt_.placement.decode, fault.error);
  close_side(worker);
  return failed_at(worker, fault.error, transfer);
}

FlowVerdict RequestFlow::on_worker_lost(WorkerId worker, const std::string& why) {
  const bool prefill = worker == attempt_.placement.prefill;
  const bool decode = worker == attempt_.placement.decode;
  if (!prefill && !decode) return FlowVerdict::kContinue;
  const bool handed_over = prefill && state_ == FlowState::kDecoding && !attempt_.prefill_open;
  if (handed_over) return FlowVerdict::kContinue;
  return failed_at(worker, {ErrorCode::kUnavailable, why});
}

FlowVerdict RequestFlow::on_reserve_timeout() {
  if (state_ != FlowState::kReserving) return FlowVerdict::kContinue;
  return failed_at(attempt_.placement.decode,
                   {ErrorCode::kUnavailable, "the decode worker did not answer Reserve"});
}

FlowVerdict RequestFlow::failed_at(WorkerId worker, const Error& fault, bool transfer) {
  log::info("request {:x}: {}: {}", attempt_.request, to_string(fault.code), fault.message);
  if (!worth_another_worker(fault.code)) return fail(bad_field("", fault.message));
  const bool last_try =
      started() ? ++resumes_ > context_.limits.max_resumes : ++retries_ > context_.limits.max_retries;
  if (last_try) return fail(workers_failed("the last of several attempts ended with: " + fault.message));
  started() ? context_.metrics.resumed() : context_.metrics.retried();
  go_back_at_ = context_.clock.now() + (started() ? kAvoidanceOfStream : kAvoidance);
  avoid_.push_back(worker);
  // A transfer has two ends, and the one that reports it need not be the one at fault.
  if (transfer || state_ == FlowState::kPrefilling)
    avoid_.push_back(worker == attempt_.placement.prefill ? attempt_.placement.decode
                                                          : attempt_.placement.prefill);
  return requeue(false);
}

FlowVerdict RequestFlow::requeue(bool turned_away) {
  end_attempt();
  turned_away_ = turned_away;
  state_ = FlowState::kQueued;
  return FlowVerdict::kRequeue;
}

FlowVerdict RequestFlow::finish(bool told_last) {
  if (told_last) leave_last_pushes();
  cancel();
  listener_->on_finished(choice_);
  return FlowVerdict::kDone;
}

// Both sides know that the first token was the last, and let go of the sequence by themselves.
void RequestFlow::leave_last_pushes() {
  if (!std::exchange(attempt_.prefill_open, false)) return;
  attempt_.decode_open = false;
  context_.last_pushes.add(attempt_.request, attempt_.placement, context_.clock.now());
}

FlowVerdict RequestFlow::fail(const ApiError& error) {
  cancel();
  listener_->on_failed(choice_, error);
  return FlowVerdict::kDone;
}

void RequestFlow::cancel() {
  end_attempt();
  state_ = FlowState::kDone;
}

void RequestFlow::close_side(WorkerId worker) {
  if (worker == attempt_.placement.prefill) attempt_.prefill_open = false;
  if (worker == attempt_.placement.decode) attempt_.decode_open = false;
}

void RequestFlow::end_attempt() {
  if (std::exchange(attempt_.prefill_open, false))
    send_cancel(context_, attempt_.request, attempt_.placement.prefill);
  if (std::exchange(attempt_.decode_open, false))
    send_cancel(context_, attempt_.request, attempt_.placement.decode);
  if (!attempt_.prefill_sent) context_.workers.give_back_trials(attempt_.placement, context_.clock.now());
  context_.workers.release_prefill(attempt_.placement);
  context_.workers.release_decode(attempt_.placement);
}

}  // namespace lynx
