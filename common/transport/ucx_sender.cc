#include "common/transport/ucx_sender.h"

#include <algorithm>
#include <utility>

#include "common/core/log.h"
#include "common/transport/kv_loan.h"

namespace lynx {

UcxSender::UcxSender(UcxWorker& worker, const UcxConfig& config, const Clock& clock, KvMemory memory)
    : worker_(worker), config_(config), clock_(clock), memory_(memory), host_(kv_loan::this_host()) {
  worker.on_message(kUcxAck, on_ack, this);
}

void UcxSender::push(KvPush push, KvTransport::Done done) {
  auto out = std::make_unique<UcxPush>();
  out->id = next_id_++;
  const std::uint64_t checksum = config_.checksum ? kv_wire::checksum(push.bytes) : 0;
  kv_wire::Push wire{
      .push_id = out->id, .incarnation = push.peer.incarnation, .checksum = checksum, .header = push.header};
  if (memory_ == KvMemory::kDevice) kv_loan::lend(wire, push.deadline, host_);
  out->header = kv_wire::encode(wire);
  out->push = std::move(push);
  out->done = std::move(done);

  const std::size_t header = kv_wire::bytes_of(out->header).size();
  if (header > worker_.max_header()) {
    out->outcome = Error{ErrorCode::kInvalidArgument, "a KV push header of " + std::to_string(header) +
                                                          " bytes is over the transport's " +
                                                          std::to_string(worker_.max_header())};
  } else if (out->push.deadline <= clock_.now()) {
    out->outcome = Error{ErrorCode::kDeadlineExceeded, "a KV push came after its deadline"};
  }
  if (closing_) out->outcome = Error{ErrorCode::kCancelled, "the transport is closing"};
  if (out->outcome) {
    refused_.push_back(std::move(out));
    return;
  }
  const KvPeer& peer = out->push.peer;
  auto& connection = connections_[Key{peer.worker, peer.incarnation, peer.address}];
  if (!connection) connection = std::make_unique<UcxConnection>(worker_, config_, peer, memory_);
  connection->enqueue(std::move(out));
}

void UcxSender::forget(const KvPeer& peer) {
  for (const auto& [key, connection] : connections_)
    if (connection->peer().worker == peer.worker && connection->peer().incarnation == peer.incarnation)
      connection->abandon({ErrorCode::kUnavailable, peer.worker + " is gone"});
}

std::size_t UcxSender::step(Clock::time_point now) {
  auto finished = std::exchange(refused_, {});
  for (auto it = connections_.begin(); it != connections_.end();) {
    UcxConnection& connection = *it->second;
    connection.step(now, finished);
    if (closing_) connection.end_loans(Clock::time_point::max(), finished);  // nobody gets these bytes next
    if (!connection.transport_name().empty()) transport_name_ = connection.transport_name();
    it = connection.idle() ? connections_.erase(it) : std::next(it);
  }
  // Last of all, because done() may push or forget.
  for (const auto& push : finished) push->done(std::move(*push->outcome));
  return finished.size();
}

bool UcxSender::has_finished() const {
  return !refused_.empty() || std::any_of(connections_.begin(), connections_.end(),
                                          [](const auto& entry) { return entry.second->has_finished(); });
}

void UcxSender::close_all() {
  closing_ = true;
  for (const auto& [key, connection] : connections_)
    connection->abandon({ErrorCode::kCancelled, "the transport is closing"});
}

bool UcxSender::drained() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return entry.second->drained(); });
}

void UcxSender::release_endpoints() {
  for (const auto& [key, connection] : connections_) connection->release_endpoint();
}

ucs_status_t UcxSender::on_ack(void* self, const void* header, std::size_t header_size, void*, std::size_t,
                               const ucp_am_recv_param_t*) {
  static_cast<UcxSender*>(self)->acknowledge({static_cast<const std::byte*>(header), header_size});
  return UCS_OK;
}

void UcxSender::acknowledge(std::span<const std::byte> header) {
  const auto ack = kv_wire::decode_ack(header);
  if (!ack) return log::warn("{}", ack.error().message);
  // Unknown ids belong to pushes that have already failed here.
  for (const auto& [key, connection] : connections_)
    if (connection->acknowledge(*ack)) return;
}

}  // namespace lynx
