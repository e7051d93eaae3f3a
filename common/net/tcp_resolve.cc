#include "common/net/asio_impl.h"
#include "common/net/byte_stream.h"

namespace lynx {
namespace {

using asio::ip::tcp;
using OnResolved = std::function<void(Result<std::vector<TcpEndpoint>>)>;

struct ResolveState {
  ResolveState(asio::io_context& io, OnResolved done) : resolver(io), on_done(std::move(done)) {}
  tcp::resolver resolver;
  OnResolved on_done;
  bool alive = true;

  void finish(Result<std::vector<TcpEndpoint>> result) {
    if (alive) std::exchange(on_done, nullptr)(std::move(result));
  }
};

class Resolving final : public Pending {
 public:
  explicit Resolving(std::shared_ptr<ResolveState> state) : state_(std::move(state)) {}
  ~Resolving() override {
    state_->alive = false;
    state_->resolver.cancel();
  }

 private:
  std::shared_ptr<ResolveState> state_;
};

TcpEndpoint endpoint_of(const asio::ip::address& address, std::uint16_t port) {
  return {address.to_string(), port, address.is_v6()};
}

}  // namespace

std::unique_ptr<Pending> resolve_tcp(EventLoop& loop, const std::string& host, std::uint16_t port,
                                     OnResolved on_done) {
  auto state = std::make_shared<ResolveState>(loop.impl().io, std::move(on_done));
  boost::system::error_code not_numeric;
  const auto address = asio::ip::make_address(host, not_numeric);
  if (!not_numeric) {
    asio::post(loop.impl().io,
               [state, address, port] { state->finish(std::vector{endpoint_of(address, port)}); });
    return std::make_unique<Resolving>(std::move(state));
  }
  state->resolver.async_resolve(
      host, std::to_string(port),
      [state, host](const boost::system::error_code& error, const tcp::resolver::results_type& results) {
        if (error)
          return state->finish(
              Error{ErrorCode::kUnavailable, "cannot resolve " + host + ": " + error.message()});
        std::vector<TcpEndpoint> endpoints;
        for (const auto& entry : results)
          endpoints.push_back(endpoint_of(entry.endpoint().address(), entry.endpoint().port()));
        state->finish(std::move(endpoints));
      });
  return std::make_unique<Resolving>(std::move(state));
}

}  // namespace lynx
