// KvTransport over UCX: active messages, eager below rndv_threshold and rendezvous above, each answered by a
// KvAck.
//
// When the bytes of a push are the owner's again. done() is called only when UCX's send request is terminal.
// Over TCP and shared memory the rendezvous runs in active messages (RNDV_SCHEME=am): the payload is read by
// this process alone, inside progress(). A peer that was stopped and wakes up after done() finds a closed
// connection, not our memory. This is why shared memory runs without single-copy (cma): there the *peer*
// reads our memory whenever it likes.
//
// How a lost peer shows. A dead process: its TCP connection resets, in milliseconds; over shared memory a
// probe every `keepalive` finds it (UCX's MM_ERROR_HANDLING, off by default). A stopped process shows
// nothing: a push that passes its deadline closes the connection, and a payload overdue by `receive_timeout`
// does so on the other side. Endpoints are closed by force and progress() drains them until every request is
// terminal.
//
// Why shm is not in `auto`: ... measured in lynx-bench kv.
#pragma once

#include <memory>
#include <optional>

#include "common/transport/kv_receiver.h"
#include "common/transport/kv_transport.h"
#include "common/transport/ucx_config.h"

namespace lynx {

class UcxTransport final : public KvTransport {
 public:
  // Without a receiver it only sends. Throws std::runtime_error: no such transport on this machine, or not
  // the required one. The clock is not owned.
  UcxTransport(const UcxConfig& config, const Clock& clock,
               std::optional<KvReceiver> receiver = std::nullopt);
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
