#include "common/net/byte_stream.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/net/byte_stream_core.h"

namespace lynx {
namespace {

constexpr std::size_t kKeepCapacity = 64 << 10;  // a drained buffer larger than this gives its memory back

std::string name_of(const asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  return TcpEndpoint{endpoint.address().to_string(), endpoint.port(), endpoint.address().is_v6()}.text();
}

}  // namespace

ByteStream::Core::Core(EventLoop::Impl& l, asio::ip::tcp::socket s, const TlsContext* tls)
    : loop(l), socket(std::move(s)), peer(name_of(socket)) {
  boost::system::error_code ignored;  // a socket that is dead already shows it at the first read
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  io = tls == nullptr ? plain_io(socket.native_handle()) : tls->accept(socket.native_handle());
}

void ByteStream::Core::close() {
  open = false;
  boost::system::error_code ignored;
  socket.close(ignored);
}

void ByteStream::Core::fail(Error cause) {
  if (!open) return;
  close();
  if (callbacks.on_end) callbacks.on_end(cause);
}

void ByteStream::Core::arm_read() {
  if (!open || half_closed || read_armed || (paused && !write_wants_read)) return;
  read_armed = true;
  socket.async_wait(asio::ip::tcp::socket::wait_read,
                    [self = shared_from_this()](const boost::system::error_code&) {
                      self->read_armed = false;
                      if (self->open) self->on_readable();
                    });
}

void ByteStream::Core::arm_write() {
  if (!open || write_armed) return;
  write_armed = true;
  socket.async_wait(asio::ip::tcp::socket::wait_write,
                    [self = shared_from_this()](const boost::system::error_code&) {
                      self->write_armed = false;
                      if (self->open) self->on_writable();
                    });
}

// Reading would only say the same again, and waiting for it would never sleep.
void ByteStream::Core::watch_for_loss() {
  half_closed = true;
  socket.async_wait(asio::ip::tcp::socket::wait_error,
                    [self = shared_from_this()](const boost::system::error_code&) {
                      self->fail({ErrorCode::kUnavailable, self->peer + " closed the connection"});
                    });
}

void ByteStream::Core::on_readable() {
  if (std::exchange(write_wants_read, false)) flush();
  read_some();
}

void ByteStream::Core::on_writable() {
  flush();
  if (std::exchange(read_wants_write, false)) read_some();
}

// One read per event keeps a fast sender from starving the others.
void ByteStream::Core::read_some() {
  using State = IoResult::State;
  do {
    if (!open || paused) return;
    const IoResult got = io->read(loop.read_scratch.data(), loop.read_scratch.size());
    switch (got.state) {
      case State::kOk:
        callbacks.on_bytes({loop.read_scratch.data(), got.bytes});
        break;
      case State::kWantRead:
        break;
      case State::kWantWrite:
        read_wants_write = true;
        arm_write();
        return;
      case State::kEnd:
        if (callbacks.on_half_close && callbacks.on_half_close()) return watch_for_loss();
        return fail({ErrorCode::kUnavailable, peer + " closed the connection"});
      case State::kFailed:
        return fail({ErrorCode::kUnavailable, peer + ": " + got.error});
    }
  } while (io->has_buffered_input());
  arm_read();
}

void ByteStream::Core::schedule_flush() {
  if (!open || flush_scheduled) return;
  flush_scheduled = true;
  asio::post(loop.io, [self = shared_from_this()] {
    self->flush_scheduled = false;
    self->flush();
  });
}

void ByteStream::Core::flush() {
  if (!open || write_armed) return;
  if (!write_pending()) fail(error);
}

// A backlog that never quite drains must not keep what has left long ago.
void ByteStream::Core::drop_sent() {
  if (sent < kKeepCapacity || sent < out.size() / 2) return;
  out.erase(0, sent);
  sent = 0;
}

bool ByteStream::Core::write_pending() {
  using State = IoResult::State;
  while (sent < out.size()) {
    IoResult put = io->write(std::string_view(out).substr(sent));
    switch (put.state) {
      case State::kOk:
        sent += put.bytes;
        blocked_since.reset();
        continue;
      case State::kWantRead:
        write_wants_read = true;
        arm_read();
        break;
      case State::kWantWrite:
        arm_write();
        break;
      case State::kEnd:
        put.error = "closed";
        [[fallthrough]];
      case State::kFailed:
        error = {ErrorCode::kUnavailable, peer + ": " + put.error};
        return false;
    }
    if (!blocked_since) blocked_since = std::chrono::steady_clock::now();
    drop_sent();
    return true;
  }
  out.clear();
  sent = 0;
  if (out.capacity() > kKeepCapacity) out.shrink_to_fit();
  if (std::exchange(finish_when_drained, false)) io->shutdown_write();
  return true;
}

ByteStream::ByteStream(std::shared_ptr<Core> core) : core_(std::move(core)) {}

ByteStream::~ByteStream() {
  if (!core_->open) return;
  (void)core_->write_pending();
  core_->close();
}

void ByteStream::start(Callbacks callbacks) {
  core_->callbacks = std::move(callbacks);
  core_->arm_read();
}

std::string& ByteStream::out() { return core_->out; }
void ByteStream::flush_soon() { core_->schedule_flush(); }

void ByteStream::flush_now() {
  if (!core_->open || core_->write_armed || core_->write_pending()) return;
  asio::post(core_->loop.io, [core = core_] { core->fail(core->error); });
}

std::size_t ByteStream::bytes_waiting() const { return core_->out.size() - core_->sent; }

std::optional<std::chrono::steady_clock::time_point> ByteStream::blocked_since() const {
  return core_->blocked_since;
}

void ByteStream::pause_reading() { core_->paused = true; }

void ByteStream::resume_reading() {
  if (!std::exchange(core_->paused, false)) return;
  if (!core_->io->has_buffered_input()) return core_->arm_read();
  asio::post(core_->loop.io, [core = core_] { core->read_some(); });
}

void ByteStream::finish_writing() {
  core_->finish_when_drained = true;
  core_->schedule_flush();
}

void ByteStream::detect_dead_peer(std::chrono::milliseconds timeout) {
  const int fd = core_->socket.native_handle();
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  const int seconds = std::max(1, static_cast<int>(timeout.count() / 3000));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout.count()));
}

const std::string& ByteStream::peer() const { return core_->peer; }

std::unique_ptr<ByteStream> make_stream(EventLoop::Impl& loop, asio::ip::tcp::socket socket,
                                        const TlsContext* tls) {
  return std::make_unique<ByteStream>(std::make_shared<ByteStream::Core>(loop, std::move(socket), tls));
}

}  // namespace lynx
