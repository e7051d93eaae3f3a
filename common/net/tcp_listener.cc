#include <stdexcept>

#include "common/core/log.h"
#include "common/core/repeated.h"
#include "common/net/byte_stream_core.h"

namespace lynx {
namespace {

using asio::ip::tcp;

// After a failed accept (no file descriptors left, mostly): trying again at once would only burn the core.
constexpr std::chrono::milliseconds kAcceptPause{50};

tcp::endpoint bind_address(asio::io_context& io, const std::string& host, std::uint16_t port) {
  boost::system::error_code not_numeric;
  const auto address = asio::ip::make_address(host, not_numeric);
  if (!not_numeric) return {address, port};
  return tcp::resolver(io).resolve(host, std::to_string(port), tcp::resolver::passive)->endpoint();
}

}  // namespace

struct TcpListener::Impl : std::enable_shared_from_this<TcpListener::Impl> {
  Impl(EventLoop& l, const TlsContext* t, std::function<void(std::unique_ptr<ByteStream>)> a)
      : loop(l), tls(t), accepted(std::move(a)), acceptor(l.impl().io) {}

  void listen(const std::string& host, std::uint16_t port) {
    const tcp::endpoint address = bind_address(loop.impl().io, host, port);
    acceptor.open(address.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(address);
    acceptor.listen(asio::socket_base::max_listen_connections);
    acceptor.non_blocking(true);
  }

  void accept_next() {
    acceptor.async_accept(
        [self = shared_from_this()](const boost::system::error_code& error, tcp::socket socket) {
          if (!self->acceptor.is_open()) return;
          if (error) return self->pause(error);
          self->accepted(make_stream(self->loop.impl(), std::move(socket), self->tls));
          if (self->acceptor.is_open()) self->accept_next();
        });
  }

  void pause(const boost::system::error_code& error) {
    const auto times = warned.tell(error.message(), SteadyClock().now());
    if (times) log::warn("cannot accept a connection: {}{}", error.message(), times_text(*times));
    retry = loop.after(kAcceptPause, [this] { accept_next(); });
  }

  EventLoop& loop;
  const TlsContext* tls;
  std::function<void(std::unique_ptr<ByteStream>)> accepted;
  tcp::acceptor acceptor;
  std::unique_ptr<Timer> retry;
  Repeated warned;
};

TcpListener::TcpListener(EventLoop& loop, const std::string& host, std::uint16_t port, const TlsContext* tls,
                         std::function<void(std::unique_ptr<ByteStream>)> accepted)
    : impl_(std::make_shared<Impl>(loop, tls, std::move(accepted))) {
  try {
    impl_->listen(host, port);
  } catch (const boost::system::system_error& e) {
    throw std::runtime_error("cannot listen on " + host + ":" + std::to_string(port) + ": " +
                             e.code().message());
  }
  impl_->accept_next();
}

TcpListener::~TcpListener() {
  boost::system::error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->retry.reset();
}

std::uint16_t TcpListener::port() const {
  boost::system::error_code error;
  return impl_->acceptor.local_endpoint(error).port();
}

}  // namespace lynx
