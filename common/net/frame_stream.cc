#include "common/net/frame_stream.h"

#include <kj/io.h>

#include "common/core/log.h"
#include "common/net/byte_stream.h"
#include "common/net/frame_decoder.h"

namespace lynx {
namespace {

constexpr std::size_t kMaxWaitingBytes = 64 << 20;

void append_le32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xff);
}

class StringOutput final : public kj::OutputStream {
 public:
  explicit StringOutput(std::string& out) : out_(out) {}
  void write(const void* bytes, std::size_t size) override {
    out_.append(static_cast<const char*>(bytes), size);
  }
  using kj::OutputStream::write;

 private:
  std::string& out_;
};

// Outlives the FrameStream while one of its callbacks runs.
class FrameState : public std::enable_shared_from_this<FrameState> {
 public:
  using Callbacks = FrameStream::Callbacks;

  FrameState(EventLoop& loop, std::unique_ptr<ByteStream> stream)
      : loop_(loop), stream_(std::move(stream)), peer_(stream_->peer()) {}

  void open() {
    stream_->pause_reading();  // until start() says who listens
    stream_->start(
        {[this](std::string_view bytes) { on_bytes(bytes); }, [this](const Error& e) { close(e); }});
  }

  void listen(Callbacks callbacks) {
    callbacks_ = std::make_shared<Callbacks>(std::move(callbacks));
    if (stream_ != nullptr && !callbacks_->on_frame) stream_->pause_reading();
    // What has come already is delivered from the loop, never from inside start().
    loop_.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->catch_up();
    });
  }

  bool send(capnp::MessageBuilder& message) {
    if (stream_ == nullptr || stuck_) return false;
    if (stream_->bytes_waiting() > kMaxWaitingBytes) {
      give_up();
      return false;
    }
    const std::size_t words = capnp::computeSerializedSizeInWords(message);
    if (words * sizeof(capnp::word) > kMaxFrameBytes) {
      log::error("a frame of {} bytes to {} is above the limit and was not sent", words * sizeof(capnp::word),
                 peer_);
      return false;
    }
    append_le32(stream_->out(), static_cast<std::uint32_t>(words));
    StringOutput output(stream_->out());
    capnp::writeMessage(output, message);
    stream_->flush_soon();
    return true;
  }

  void shut() {
    callbacks_ = nullptr;
    stream_.reset();
  }

  const std::string& peer() const { return peer_; }
  std::size_t bytes_waiting() const { return stream_ == nullptr ? 0 : stream_->bytes_waiting(); }

 private:
  bool listening() const { return callbacks_ != nullptr && callbacks_->on_frame != nullptr; }

  void catch_up() {
    if (!listening()) return;
    if (stream_ == nullptr) return report_close();
    deliver();
    if (stream_ != nullptr && listening()) stream_->resume_reading();
  }

  void on_bytes(std::string_view bytes) {
    const auto self = shared_from_this();  // a callback may drop the stream
    decoder_.append(bytes);
    deliver();
  }

  void deliver() {
    const auto self = shared_from_this();
    while (stream_ != nullptr && listening()) {
      const auto callbacks = callbacks_;  // on_frame may start() anew
      switch (decoder_.next(callbacks->on_frame)) {
        case FrameDecoder::Step::kDelivered:
          break;
        case FrameDecoder::Step::kNeedMore:
          return;
        case FrameDecoder::Step::kCorrupt:
          return close({ErrorCode::kCorrupt, peer_ + ": " + decoder_.problem()});
      }
    }
  }

  // A frame that is left out would leave a hole that nobody sees: the stream ends instead, and both sides
  // start anew. Posted, because a sender may be in the middle of its own state.
  void give_up() {
    stuck_ = true;
    Error cause{ErrorCode::kUnavailable,
                peer_ + " takes nothing: " + std::to_string(stream_->bytes_waiting() >> 20) +
                    " MiB wait to be sent, the limit is " + std::to_string(kMaxWaitingBytes >> 20)};
    log::error("{}; the connection is closed", cause.message);
    loop_.post([weak = weak_from_this(), cause = std::move(cause)] {
      if (const auto self = weak.lock()) self->close(cause);
    });
  }

  void close(Error cause) {
    if (stream_ == nullptr) return;
    const auto self = shared_from_this();
    stream_.reset();
    cause_ = std::move(cause);
    report_close();
  }

  // Once; a close that nobody listened for waits for the next start().
  void report_close() {
    const auto callbacks = callbacks_;
    if (callbacks == nullptr || !callbacks->on_close) return;
    callbacks_ = nullptr;
    callbacks->on_close(cause_);
  }

  EventLoop& loop_;
  std::unique_ptr<ByteStream> stream_;  // null once closed
  bool stuck_ = false;                  // gave up on the peer: the close is posted
  const std::string peer_;
  std::shared_ptr<Callbacks> callbacks_;
  FrameDecoder decoder_;
  Error cause_;
};

class TcpFrameStream final : public FrameStream {
 public:
  TcpFrameStream(EventLoop& loop, std::unique_ptr<ByteStream> stream)
      : state_(std::make_shared<FrameState>(loop, std::move(stream))) {
    state_->open();
  }
  ~TcpFrameStream() override { state_->shut(); }

  void start(Callbacks callbacks) override { state_->listen(std::move(callbacks)); }
  bool send(capnp::MessageBuilder& message) override { return state_->send(message); }
  std::string peer() const override { return state_->peer(); }
  std::size_t bytes_waiting() const override { return state_->bytes_waiting(); }

 private:
  std::shared_ptr<FrameState> state_;
};

// A control connection whose host has died ends after this long, even when neither side has anything to say.
constexpr std::chrono::seconds kDeadPeer{12};

std::unique_ptr<FrameStream> make_frame_stream(EventLoop& loop, std::unique_ptr<ByteStream> stream) {
  stream->detect_dead_peer(kDeadPeer);
  return std::make_unique<TcpFrameStream>(loop, std::move(stream));
}

class FrameConnecting final : public FrameConnect {
 public:
  explicit FrameConnecting(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}

 private:
  std::unique_ptr<Pending> pending_;
};

}  // namespace

struct FrameListener::Impl {
  TcpListener listener;
};

FrameListener::FrameListener(EventLoop& loop, const std::string& host, std::uint16_t port,
                             std::function<void(std::unique_ptr<FrameStream>)> accepted)
    : impl_(new Impl{TcpListener(loop, host, port, nullptr,
                                 [&loop, accepted = std::move(accepted)](std::unique_ptr<ByteStream> stream) {
                                   accepted(make_frame_stream(loop, std::move(stream)));
                                 })}) {}

FrameListener::~FrameListener() = default;
std::uint16_t FrameListener::port() const { return impl_->listener.port(); }

std::unique_ptr<FrameConnect> connect_frames(
    EventLoop& loop, const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout,
    std::function<void(Result<std::unique_ptr<FrameStream>>)> on_done) {
  const auto wrap = [&loop, done = std::move(on_done)](Result<std::unique_ptr<ByteStream>> connected) {
    if (!connected) return done(connected.error());
    done(make_frame_stream(loop, std::move(*connected)));
  };
  return std::make_unique<FrameConnecting>(connect_tcp(loop, host, port, timeout, wrap));
}

}  // namespace lynx
