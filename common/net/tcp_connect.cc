#include "common/net/byte_stream_core.h"

namespace lynx {
namespace {

using asio::ip::tcp;
using OnConnected = std::function<void(Result<std::unique_ptr<ByteStream>>)>;

class ConnectAttempt : public std::enable_shared_from_this<ConnectAttempt> {
 public:
  ConnectAttempt(EventLoop& loop, std::string target, OnConnected on_done)
      : loop_(loop), target_(std::move(target)), socket_(loop.impl().io), on_done_(std::move(on_done)) {}

  void start(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout) {
    timer_ = loop_.after(timeout, [this] {
      finish(Error{ErrorCode::kDeadlineExceeded, "no answer in time"});
    });
    resolving_ = resolve_tcp(loop_, host, port, [this](Result<std::vector<TcpEndpoint>> found) {
      if (!found) return finish(found.error());
      endpoints_ = std::move(*found);
      try_next();
    });
  }

  void cancel() {
    on_done_ = nullptr;
    timer_.reset();
    resolving_.reset();
    close();
  }

 private:
  void close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

  void try_next() {
    if (next_ == endpoints_.size()) return finish(Error{ErrorCode::kUnavailable, last_error_});
    const TcpEndpoint& to = endpoints_[next_++];
    close();  // what an earlier try left open
    socket_.async_connect({asio::ip::make_address(to.address), to.port},
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            if (!self->on_done_) return;
                            if (!error) return self->finish_connected();
                            self->last_error_ = error.message();
                            self->try_next();
                          });
  }

  void finish_connected() { finish(make_stream(loop_.impl(), std::move(socket_), nullptr)); }

  void finish(Result<std::unique_ptr<ByteStream>> result) {
    const auto self = shared_from_this();  // on_done may drop the handle
    const auto done = std::exchange(on_done_, nullptr);
    if (!done) return;
    cancel();
    if (result) return done(std::move(result));
    done(Error{result.error().code, "cannot connect to " + target_ + ": " + result.error().message});
  }

  EventLoop& loop_;
  std::string target_;
  tcp::socket socket_;
  OnConnected on_done_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<Pending> resolving_;
  std::vector<TcpEndpoint> endpoints_;
  std::size_t next_ = 0;
  std::string last_error_ = "the name has no address";
};

class Connecting final : public Pending {
 public:
  explicit Connecting(std::shared_ptr<ConnectAttempt> attempt) : attempt_(std::move(attempt)) {}
  ~Connecting() override { attempt_->cancel(); }

 private:
  std::shared_ptr<ConnectAttempt> attempt_;
};

}  // namespace

std::unique_ptr<Pending> connect_tcp(EventLoop& loop, const std::string& host, std::uint16_t port,
                                     std::chrono::milliseconds timeout, OnConnected on_done) {
  auto attempt =
      std::make_shared<ConnectAttempt>(loop, host + ":" + std::to_string(port), std::move(on_done));
  attempt->start(host, port, timeout);
  return std::make_unique<Connecting>(std::move(attempt));
}

}  // namespace lynx
