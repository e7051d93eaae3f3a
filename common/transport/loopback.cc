#include "common/transport/loopback.h"

#include <algorithm>

namespace lynx {

LoopbackTransport::LoopbackTransport(LoopbackNetwork& network, const Clock& clock,
                                     std::optional<KvReceiver> receiver)
    : network_(network),
      clock_(clock),
      receiver_(receiver),
      address_("loopback:" + std::to_string(network.next_node_++)) {
  network_.nodes_.emplace(address_, this);
}

LoopbackTransport::~LoopbackTransport() { network_.nodes_.erase(address_); }

void LoopbackTransport::push(KvPush push, Done done) {
  waiting_.push_back({std::move(push), std::move(done), std::nullopt});
}

std::size_t LoopbackTransport::progress() {
  // What done() pushes waits for the next call: a push that is answered by a push must not spin here.
  const std::size_t count = waiting_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    waiting.done(deliver(waiting));
  }
  return count;
}

void LoopbackTransport::forget(const KvPeer& peer) {
  for (Waiting& waiting : waiting_) {
    const KvPeer& to = waiting.push.peer;
    if (to.worker == peer.worker && to.incarnation == peer.incarnation)
      waiting.failed = Error{ErrorCode::kUnavailable, peer.worker + " is gone"};
  }
}

Result<std::uint64_t> LoopbackTransport::deliver(const Waiting& waiting) {
  const KvPush& push = waiting.push;
  if (waiting.failed) return *waiting.failed;
  if (push.deadline <= clock_.now())
    return {ErrorCode::kDeadlineExceeded, "a KV push to " + push.peer.worker + " passed its deadline"};
  const auto node = network_.nodes_.find(push.peer.address);
  const std::optional<KvReceiver> nobody;
  const auto& receiver = node == network_.nodes_.end() ? nobody : node->second->receiver_;
  if (!receiver)
    return {ErrorCode::kUnavailable, push.peer.worker + " is not reachable at " + push.peer.address};
  const auto place = admit_push(*receiver, push.header, push.peer.incarnation, push.bytes.size());
  if (!place) return place.error();
  std::copy(push.bytes.begin(), push.bytes.end(), place->begin());
  delivered_ = true;
  receiver->sink->write_done(push.header, push.bytes.size());
  return push.bytes.size();
}

}  // namespace lynx
