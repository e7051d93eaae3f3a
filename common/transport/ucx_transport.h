// KvTransport over UCX: active messages, eager below rndv_threshold and rendezvous above it, each answered by
// a KvAck.
//
// When the bytes of a push are their owner's again: done() is called only when UCX's send request is
// terminal (over shared memory also a second after a forced close that UCX never finishes; a device's bytes
// at their deadline at the earliest, unless the peer has answered). Over TCP and
// shared memory the rendezvous itself runs in active messages (RNDV_SCHEME=am), so that this process alone
// reads its bytes, inside progress(). A peer that was stopped and wakes up after done() finds a closed
// connection, not our memory. For the same reason shared memory runs without single copy (cma), where the
// peer reads our memory whenever it likes.
//
// How a lost peer shows:
//   dead     TCP resets in milliseconds; over shared memory a probe every `keepalive` finds out
//   (MM_ERROR_HANDLING, which
//            UCX leaves off)
//   stopped  nothing shows: a push that passes its deadline closes the connection, and on the other side a
//   payload that is
//            overdue by `receive_timeout` does
// Either way the endpoint is closed by force and progress() drains it until every request is terminal; a
// later push to the same peer waits for that, then connects anew.
//
// A device's memory (KvMemory::kDevice) goes from GPU to GPU where UCX was built with CUDA and the two
// processes share a host: the receiver fetches it (RNDV_SCHEME=get_zcopy), so that nobody ever writes into
// the memory of a process that did not ask for it, and kv_loan.h says until when it may. Where there is no
// such way UCX copies through the host. The two sides may differ in their memory, not in their UCX.
//
// Shared memory is only for those who ask for it (`auto` leaves it out). All senders share one queue in the
// receiver, and a process that dies in the middle of a write to it leaves it stuck: every later push to that
// receiver then fails at its deadline until the receiver is restarted. TCP and RDMA have a connection for
// each peer and no such fault.
#pragma once

#include <memory>
#include <optional>

#include "common/kv/kv_memory.h"
#include "common/transport/kv_receiver.h"
#include "common/transport/kv_transport.h"
#include "common/transport/ucx_config.h"

namespace lynx {

class UcxTransport final : public KvTransport {
 public:
  // Without a receiver it only sends. Throws std::runtime_error: no such transport on this machine, or not
  // the required one. The clock is not owned.
  // memory: where every push's bytes and every place of the receiver's sink lie; for a device's, its context
  // is current on this thread.
  UcxTransport(const UcxConfig& config, const Clock& clock, std::optional<KvReceiver> receiver = std::nullopt,
               KvMemory memory = KvMemory::kHost);
  // Closes every connection by force. done() and write_done() that are still owed come from here, with an
  // error: sink and owners outlive the transport.
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  void push(KvPush push, Done done) override;
  std::size_t progress() override;
  bool arm() override;
  int event_fd() const override;
  void forget(const KvPeer& peer) override;
  std::string address() const override;
  std::string transport_name() const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lynx
