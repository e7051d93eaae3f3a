// KvTransport within one process, for tests and single-process runs: push() queues, progress() delivers in
// order. All transports of one network live on one thread. A test delays by not calling progress(), fails a
// push through its sink, and kills a peer by destroying its transport.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/transport/kv_receiver.h"
#include "common/transport/kv_transport.h"

namespace lynx {

class LoopbackTransport;

// Who is reachable under which address. Outlives its transports.
class LoopbackNetwork {
 private:
  friend class LoopbackTransport;
  std::map<std::string, LoopbackTransport*> nodes_;
  std::uint64_t next_node_ = 1;
};

class LoopbackTransport final : public KvTransport {
 public:
  // Without a receiver it only sends. The clock is not owned.
  LoopbackTransport(LoopbackNetwork& network, const Clock& clock,
                    std::optional<KvReceiver> receiver = std::nullopt);
  ~LoopbackTransport() override;
  LoopbackTransport(const LoopbackTransport&) = delete;
  LoopbackTransport& operator=(const LoopbackTransport&) = delete;

  void push(KvPush push, Done done) override;
  std::size_t progress() override;
  bool arm() override { return waiting_.empty(); }
  int event_fd() const override { return -1; }
  void forget(const KvPeer& peer) override;
  std::string address() const override { return address_; }
  std::string transport_name() const override { return delivered_ ? "loopback" : ""; }

 private:
  struct Waiting {
    KvPush push;
    Done done;
    std::optional<Error> failed;  // forget() came first
  };
  Result<std::uint64_t> deliver(const Waiting& waiting);

  LoopbackNetwork& network_;
  const Clock& clock_;
  std::optional<KvReceiver> receiver_;
  std::string address_;
  std::deque<Waiting> waiting_;
  bool delivered_ = false;
};

}  // namespace lynx
