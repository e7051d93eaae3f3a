// One authenticated control connection: hello with version and nonce, proof of the shared cluster secret both
// ways (HMAC-SHA256 over both nonces), then frames. A wrong version or secret is refused with a reason the
// peer logs. The caller sees a link only once it is proven. Loop thread. Without a secret, only loopback
// peers are let in.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/net/frame_stream.h"

namespace lynx {

struct ControlIdentity {
  std::string service;  // router, prefill, decode
  std::string secret;   // shared by the cluster; empty only on loopback
};

// Takes the stream through hello and proof within the timeout. on_done exactly once; the stream it hands out
// has no callbacks yet (call start).
void prove_link(EventLoop& loop, std::unique_ptr<FrameStream> stream, const ControlIdentity& self,
                std::chrono::milliseconds timeout,
                std::function<void(Result<std::unique_ptr<FrameStream>>, std::string peer_service)> on_done);

struct RouterAddress {
  std::string host;  // a DNS name may resolve to several routers: each gets a connection. Where it has IPv4
                     // addresses, its IPv6 ones are taken for the same routers and left out
  std::uint16_t port = 0;
};

// A worker's side: keeps one proven link to every router of a list (static addresses or DNS names, resolved
// again every refresh period), with capped exponential back-off. Registers by itself, using the frame the
// worker provides.
class RouterLinks {
 public:
  struct Callbacks {
    std::function<void(capnp::MallocMessageBuilder&)> fill_register;  // before each registration
    std::function<void(std::uint64_t link, proto::Frame::Reader)>
        on_frame;                                   // link names the router connection
    std::function<void(std::uint64_t link)> on_up;  // welcome received
    std::function<void(std::uint64_t link, const Error&)> on_down;
  };
  struct Times {
    std::chrono::milliseconds refresh{5'000};    // a name is resolved again
    std::chrono::milliseconds handshake{2'000};  // connect, then proof, then welcome: this long for each
    std::chrono::milliseconds silence{15'000};   // a router that says nothing, not even ping, is given up
    std::chrono::milliseconds min_backoff{100};  // doubled after each failure, with jitter
    std::chrono::milliseconds max_backoff{2'000};
  };
  RouterLinks(EventLoop& loop, ControlIdentity self, std::vector<RouterAddress> routers, Callbacks callbacks)
      : RouterLinks(loop, std::move(self), std::move(routers), std::move(callbacks), Times()) {}
  RouterLinks(EventLoop& loop, ControlIdentity self, std::vector<RouterAddress> routers, Callbacks callbacks,
              Times times);
  ~RouterLinks();

  bool send(std::uint64_t link, capnp::MessageBuilder& message);  // false: that link is down
  void broadcast(capnp::MessageBuilder& message);
  std::size_t up() const;
  std::string last_problem() const;  // of a router that is not up, as it was logged; empty when there is none

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lynx
