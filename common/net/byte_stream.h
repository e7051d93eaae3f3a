// A connected socket: bytes in by callback, bytes out through a buffer that leaves in one system call per
// loop turn. Dead peers, slow readers and half-closes look the same whatever is spoken on top. Internal to
// common/net. Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/core/result.h"
#include "common/net/event_loop.h"

namespace lynx {

class ByteStream {
 public:
  struct Core;
  explicit ByteStream(std::shared_ptr<Core> core);
  ~ByteStream();  // sends what the socket takes at once, closes; no callback runs after
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  struct Callbacks {
    std::function<void(std::string_view bytes)> on_bytes;  // valid during the call
    std::function<void(const Error&)>
        on_end;  // once: the peer closed, or a failure. Never from inside our own calls
    // The peer sends nothing more. True: it may still read, so the stream stays until the connection is lost;
    // false, or left empty: that is its end. A peer that has closed altogether looks the same until something
    // is sent to it.
    std::function<bool()> on_half_close = nullptr;
  };
  void start(Callbacks callbacks);  // once

  // Append here, then call flush_soon(): it all leaves when the loop has run what is queued now.
  std::string& out();
  void flush_soon();
  void flush_now();  // for a writer that outgrows its limit within one turn

  std::size_t bytes_waiting() const;
  // When the peer stopped taking bytes; nothing while it keeps up.
  std::optional<std::chrono::steady_clock::time_point> blocked_since() const;

  void pause_reading();
  void resume_reading();
  void finish_writing();  // ends our direction once everything has left
  void detect_dead_peer(
      std::chrono::milliseconds timeout);  // unacknowledged bytes older than this end the stream
  const std::string& peer() const;         // host:port

 private:
  std::shared_ptr<Core> core_;
};

// A handle on something under way: dropping it cancels, and its callback never runs.
class Pending {
 public:
  virtual ~Pending() = default;
};

struct TcpEndpoint {
  std::string address;  // numeric
  std::uint16_t port = 0;
  bool v6 = false;

  std::string text() const { return (v6 ? "[" + address + "]:" : address + ":") + std::to_string(port); }
};

// Every address of the name, in the system's order. on_done never runs inside the call.
[[nodiscard]] std::unique_ptr<Pending> resolve_tcp(
    EventLoop& loop, const std::string& host, std::uint16_t port,
    std::function<void(Result<std::vector<TcpEndpoint>>)> on_done);

// Tries every address of the name until one answers; one timeout over all. on_done never runs inside the
// call.
[[nodiscard]] std::unique_ptr<Pending> connect_tcp(
    EventLoop& loop, const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout,
    std::function<void(Result<std::unique_ptr<ByteStream>>)> on_done);

// Work that nobody holds a handle on (a handshake) lives with the loop, until it releases itself or the loop
// goes.
void keep_with_loop(EventLoop& loop, std::shared_ptr<void> work);
void release_from_loop(EventLoop& loop, const void* work);

class TlsContext;

class TcpListener {
 public:
  // tls: null for plain TCP; must outlive the listener's streams' creation. Throws std::runtime_error naming
  // the address.
  TcpListener(EventLoop& loop, const std::string& host, std::uint16_t port, const TlsContext* tls,
              std::function<void(std::unique_ptr<ByteStream>)> accepted);
  ~TcpListener();
  std::uint16_t port() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lynx
