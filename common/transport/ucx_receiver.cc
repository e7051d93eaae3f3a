#include "common/transport/ucx_receiver.h"

#include <set>
#include <utility>

#include "common/core/log.h"
#include "common/transport/kv_loan.h"
#include "common/transport/ucx_connection.h"
#include "common/transport/ucx_info.h"

namespace lynx {

namespace {

constexpr auto kCheckEvery = std::chrono::milliseconds(10);

}  // namespace

UcxReceiver::UcxReceiver(UcxWorker& worker, const UcxConfig& config, const Clock& clock, KvReceiver receiver,
                         KvMemory memory)
    : worker_(worker),
      config_(config),
      clock_(clock),
      receiver_(receiver),
      memory_(ucx_memory_type(memory)),
      host_(kv_loan::this_host()) {
  worker.on_message(kUcxPush, on_push, this);
}

ucs_status_t UcxReceiver::on_push(void* self, const void* header, std::size_t header_size, void* data,
                                  std::size_t size, const ucp_am_recv_param_t* param) {
  // UCS_OK without a receive drops the payload and completes the sender's request: that is how a push is
  // refused.
  static_cast<UcxReceiver*>(self)->accept({static_cast<const std::byte*>(header), header_size}, data, size,
                                          *param);
  return UCS_OK;
}

void UcxReceiver::accept(std::span<const std::byte> header, void* data, std::size_t size,
                         const ucp_am_recv_param_t& param) {
  if ((param.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
    return log::warn("a KV push that cannot be answered");
  auto push = kv_wire::decode_push(header);
  if (!push) return log::warn("{}", push.error().message);
  if (Status lent = kv_loan::still_lent(*push, clock_.now(), host_); !lent)
    return answer(param.reply_ep, push->push_id, lent);
  const auto place = admit_push(receiver_, push->header, push->incarnation, size);
  if (!place) return answer(param.reply_ep, push->push_id, place.error());
  if (transport_name_.empty()) {
    transport_name_ =
        ucx_chosen_transport(captured([&](std::FILE* out) { ucp_ep_print_info(param.reply_ep, out); }));
  }

  Receive& record = receives_.emplace_back();
  record.owner = this;
  record.push = std::move(*push);
  record.place = *place;
  record.reply = param.reply_ep;
  record.waits_since = clock_.now();
  record.self = std::prev(receives_.end());
  receive(record, data);
}

// Eager or by rendezvous, into either kind of memory.
void UcxReceiver::receive(Receive& record, void* descriptor) {
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.cb.recv_am = on_received;
  params.user_data = &record;
  params.memory_type = memory_;
  void* request =
      ucp_am_recv_data_nbx(worker_.get(), descriptor, record.place.data(), record.place.size(), &params);
  if (UCS_PTR_IS_ERR(request)) return finish(record, UCS_PTR_STATUS(request));
  if (request == nullptr) finish(record, UCS_OK);  // landed at once; otherwise on_received follows
}

void UcxReceiver::on_received(void* request, ucs_status_t status, std::size_t, void* arg) {
  ucp_request_free(request);
  auto& record = *static_cast<Receive*>(arg);
  record.owner->finish(record, status);
}

// The payload is terminal: tell the sink, answer the sender if it still is there, and forget the record.
void UcxReceiver::finish(Receive& record, ucs_status_t status) {
  const kv_wire::Push push = std::move(record.push);
  const auto place = record.place;
  ucp_ep_h reply = record.reply;
  receives_.erase(record.self);
  // The connection moves: what else it owes gets its time anew, since UCX serves the pushes of one connection
  // side by side.
  for (Receive& other : receives_)
    if (other.reply == reply) other.waits_since = clock_.now();
  if (status != UCS_OK) {
    // The connection is lost, and the endpoint with it: there is nobody to answer.
    receiver_.sink->write_done(push.header,
                               ucx_error(ErrorCode::kUnavailable, "the KV sender is lost", status));
    return;
  }
  if (Status lent = kv_loan::still_lent(push, clock_.now(), host_); !lent) {
    receiver_.sink->write_done(push.header, lent.error());
    return answer(reply, push.push_id, lent);
  }
  if (push.checksum != 0 && push.checksum != kv_wire::checksum(place)) {
    const Error broken{ErrorCode::kCorrupt, "the checksum of a KV payload is wrong"};
    receiver_.sink->write_done(push.header, broken);
    return answer(reply, push.push_id, broken);
  }
  receiver_.sink->write_done(push.header, place.size());
  answer(reply, push.push_id, {});
}

void UcxReceiver::answer(ucp_ep_h reply, std::uint64_t push_id, Status verdict) {
  Answer& record = answers_.emplace_back();
  record.owner = this;
  record.words = kv_wire::encode(kv_wire::Ack{push_id, std::move(verdict)});
  record.self = std::prev(answers_.end());

  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = on_answered;
  params.user_data = &record;
  const auto header = kv_wire::bytes_of(record.words);
  void* request = ucp_am_send_nbx(reply, kUcxAck, header.data(), header.size(), nullptr, 0, &params);
  if (!UCS_PTR_IS_PTR(request)) answers_.erase(record.self);  // gone out, or the sender is lost
}

void UcxReceiver::on_answered(void* request, ucs_status_t, void* arg) {
  ucp_request_free(request);
  auto& record = *static_cast<Answer*>(arg);
  record.owner->answers_.erase(record.self);
}

void UcxReceiver::step(Clock::time_point now) {
  if (now < next_check_) return;
  next_check_ = now + kCheckEvery;
  std::erase_if(closes_, [](const auto& entry) { return entry.second->finished(); });
  close_overdue(now - config_.receive_timeout);
}

void UcxReceiver::close_all() { close_overdue(Clock::time_point::max()); }

void UcxReceiver::close_overdue(Clock::time_point older_than) {
  std::set<ucp_ep_h> overdue;  // first collected: a close completes receives and so changes the list
  for (const Receive& record : receives_)
    if (record.waits_since <= older_than && !closes_.contains(record.reply)) overdue.insert(record.reply);
  for (ucp_ep_h reply : overdue) {
    log::warn("a KV payload stays away: closing its connection");
    closes_.emplace(reply, std::make_unique<UcxClose>(reply));
  }
}

}  // namespace lynx
