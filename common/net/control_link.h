// One authenticated control connection: hello with version and nonce, proof of the shared cluster secret both ways
// (HMAC-SHA256 over both nonces), then frames. A wrong version or secret is refused with a reason the peer logs.
// The caller sees a link only once it is proven. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/net/frame_stream.h"

namespace lynx {

struct ControlIdentity {
  std::string service;        // router, prefill, decode
  std::string secret;         // shared by the cluster; empty only on loopback
};

// Takes the stream through hello and proof within the timeout. on_done exactly once; the stream it hands out has no
// callbacks yet (call start).
void prove_link(EventLoop& loop, std::unique_ptr<FrameStream> stream, const ControlIdentity& self,
                std::chrono::milliseconds timeout,
                std::function<void(Result<std::unique_ptr<FrameStream>>, std::string peer_service)> on_done);

struct RouterAddress {
  std::string host;           // a DNS name may resolve to several routers: each gets a connection
  std::uint16_t port = 0;
};

// A worker's side: keeps one proven link to every router of a list (static addresses or DNS names, resolved again every
// refresh period), with capped exponential back-off. Registers by itself, using the frame the worker provides.
class RouterLinks {
 public:
  struct Callbacks {
    std::function<void(capnp::MallocMessageBuilder&)> fill_register;                    // before each registration
    std::function<void(std::uint64_t link, proto::Frame::Reader)> on_frame;             // link names the router connection
    std::function<void(std::uint64_t link)> on_up;                                      // welcome received
    std::function<void(std::uint64_t link, const Error&)> on_down;
  };
  RouterLinks(EventLoop& loop, ControlIdentity self, std::vector<RouterAddress> routers, Callbacks callbacks);
  ~RouterLinks();

  bool send(std::uint64_t link, capnp::MessageBuilder& message);   // false: that link is down
  void broadcast(capnp::MessageBuilder& message);
  std::size_t up() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lynx
