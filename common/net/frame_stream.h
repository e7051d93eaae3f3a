// Frames of the control plane over TCP: a little-endian u32 count of 8-byte words, then one flat Cap'n Proto
// message. TCP_NODELAY; frames above the limit, and bytes that are no message, close the stream with an
// error. Loop thread.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/core/result.h"
#include "common/net/event_loop.h"
#include "proto/worker.capnp.h"

namespace lynx {

inline constexpr std::size_t kMaxFrameBytes = 16 << 20;

class FrameStream {
 public:
  virtual ~FrameStream() = default;  // closes; no callback runs after

  struct Callbacks {
    std::function<void(proto::Frame::Reader)> on_frame;  // the reader is valid during the call
    std::function<void(Error)> on_close;                 // once, with the cause; not called by our own close
  };
  virtual void start(Callbacks callbacks) = 0;

  // Queues; frames of one loop turn leave in one write. False when closed, when the frame is above the limit,
  // or when more than 64 MiB wait: the peer is stuck, and the stream closes (on_close says why, never from
  // inside send).
  virtual bool send(capnp::MessageBuilder& message) = 0;
  virtual std::string peer() const = 0;  // host:port
  virtual std::size_t bytes_waiting() const = 0;
};

class FrameListener {
 public:
  // Throws std::runtime_error naming the address when it cannot listen.
  FrameListener(EventLoop& loop, const std::string& host, std::uint16_t port,
                std::function<void(std::unique_ptr<FrameStream>)> accepted);
  ~FrameListener();
  std::uint16_t port() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Resolves and connects within the timeout; on_done exactly once. Dropping the handle cancels.
class FrameConnect {
 public:
  virtual ~FrameConnect() = default;
};
[[nodiscard]] std::unique_ptr<FrameConnect> connect_frames(
    EventLoop& loop, const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout,
    std::function<void(Result<std::unique_ptr<FrameStream>>)> on_done);

}  // namespace lynx
