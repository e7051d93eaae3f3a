// What workers say, to the flow it is meant for.
#include <utility>

#include "common/core/log.h"
#include "services/router/dispatcher.h"
#include "services/router/transfer_outcome.h"

namespace lynx {

void Dispatcher::on_frame(WorkerId from, proto::Frame::Reader frame) {
  switch (frame.which()) {
    case proto::Frame::TOKENS:
      return on_tokens(from, frame.getTokens());
    case proto::Frame::HEARTBEAT:
      return on_heartbeat(from, frame.getHeartbeat());
    case proto::Frame::RESERVED: {
      const auto reserved = frame.getReserved();
      const auto lease = reserved.getLease();
      return step_request(from, reserved.getRequest(), WorkerRole::kDecode,
                          [&](RequestFlow& flow) { return flow.on_reserved(lease); });
    }
    case proto::Frame::FIRST_TOKEN: {
      const auto first = frame.getFirstToken();
      auto token = read_token(first.getToken());
      step_request(from, first.getRequest(), WorkerRole::kPrefill,
                   [&](RequestFlow& flow) { return flow.on_first_token(std::move(token)); });
      return pump();  // the prefill worker has a free slot
    }
    case proto::Frame::HANDED_OVER:
      return on_handed_over(from, frame.getHandedOver());
    case proto::Frame::BUSY:
      return on_busy(from, frame.getBusy());
    case proto::Frame::ENDED:
      return on_ended(from, frame.getEnded());
    case proto::Frame::HELLO:
    case proto::Frame::PROOF:
    case proto::Frame::REFUSED:
    case proto::Frame::REGISTER:
    case proto::Frame::WELCOME:
    case proto::Frame::PING:
    case proto::Frame::RESERVE:
    case proto::Frame::PREFILL:
    case proto::Frame::CANCEL:
    case proto::Frame::GONE:
      return log::warn("worker {} sent a frame that is not for a router", from);
  }
}

void Dispatcher::on_tokens(WorkerId from, proto::Tokens::Reader tokens) {
  bool freed = false;
  for (const auto item : tokens.getItems()) {
    auto token = read_item(item);
    step_request(from, item.getRequest(), WorkerRole::kDecode, [&](RequestFlow& flow) {
      const FlowVerdict verdict = flow.on_decode_token(std::move(token));
      freed = freed || verdict != FlowVerdict::kContinue;
      return verdict;
    });
  }
  if (freed) pump();
}

void Dispatcher::on_handed_over(WorkerId from, proto::HandedOver::Reader done) {
  const auto shares = done.getExpertShares();
  SharedProfile profile;
  if (shares.size() > 0) profile = std::make_shared<ExpertProfile>(shares.begin(), shares.end());
  metrics_.transferred(done.getTransferSeconds(), done.getExposedSeconds());
  if (const auto last = context_.last_pushes.take(done.getRequest(), from))
    return on_last_push(*last, nullptr);
  step_request(from, done.getRequest(), WorkerRole::kPrefill, [&](RequestFlow& flow) {
    if (profile) profiles_.learn(flows_.at(requests_.at(done.getRequest())).prefix_keys, profile);
    flow.on_handed_over(std::move(profile));
    return FlowVerdict::kContinue;
  });
}

void Dispatcher::on_busy(WorkerId from, proto::Busy::Reader busy) {
  const Worker* worker = workers_.find(from);
  if (worker == nullptr) return;
  const std::chrono::milliseconds wait(busy.getRetryAfterMs());
  step_request(from, busy.getRequest(), worker->info.role,
               [&](RequestFlow& flow) { return flow.on_busy(from, wait); });
  pump();
}

void Dispatcher::on_ended(WorkerId from, proto::Ended::Reader ended) {
  const Worker* worker = workers_.find(from);
  if (worker == nullptr) return;
  const WorkerFault fault = read_ended(ended);
  if (const auto last = context_.last_pushes.take(ended.getRequest(), from))
    return on_last_push(*last, &fault);
  step_request(from, ended.getRequest(), worker->info.role,
               [&](RequestFlow& flow) { return flow.on_ended(from, fault); });
  pump();
}

void Dispatcher::on_last_push(const LastPushes::HandOver& push, const WorkerFault* fault) {
  if (fault == nullptr) return count_transferred(context_, push.prefill, push.decode);
  if (is_transfer_fault(*fault, true))
    count_failed_transfer(context_, push.prefill, push.decode, fault->error);
  for (const WorkerId id : {push.prefill, push.decode}) send_cancel(context_, push.request, id);
}

void Dispatcher::on_heartbeat(WorkerId from, proto::Heartbeat::Reader beat) {
  workers_.heartbeat(from, read_heartbeat(beat), clock_.now());
  pump();
}

}  // namespace lynx
