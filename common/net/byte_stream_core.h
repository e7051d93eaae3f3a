// The Asio side of ByteStream, for the files that make streams. Internal to common/net.
#pragma once

#include "common/net/asio_impl.h"
#include "common/net/byte_stream.h"
#include "common/net/socket_io.h"

namespace lynx {

struct ByteStream::Core : std::enable_shared_from_this<ByteStream::Core> {
  Core(EventLoop::Impl& l, asio::ip::tcp::socket s, const TlsContext* tls);

  void close();
  void arm_read();
  void arm_write();
  void on_readable();
  void on_writable();
  void read_some();
  void flush();          // from the loop: may call on_end
  bool write_pending();  // false after a failure, with `error` set
  void drop_sent();
  void fail(Error cause);
  void schedule_flush();
  void watch_for_loss();

  EventLoop::Impl& loop;
  asio::ip::tcp::socket socket;
  std::unique_ptr<SocketIo> io;
  std::string peer;
  Callbacks callbacks;
  std::string out;
  std::size_t sent = 0;  // bytes of out that have left
  std::optional<std::chrono::steady_clock::time_point> blocked_since;
  Error error;
  bool open = true;
  bool paused = false;
  bool half_closed = false;  // nothing more to read
  bool read_armed = false;
  bool write_armed = false;
  bool flush_scheduled = false;
  bool finish_when_drained = false;
  bool read_wants_write = false;  // TLS may need the other direction first
  bool write_wants_read = false;
};

std::unique_ptr<ByteStream> make_stream(EventLoop::Impl& loop, asio::ip::tcp::socket socket,
                                        const TlsContext* tls);

}  // namespace lynx
