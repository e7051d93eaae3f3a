#include "common/net/http_server.h"

#include <algorithm>
#include <unordered_map>

#include "common/net/http_connection.h"
#include "common/net/socket_io.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

// Connections that may wait for their 503 above the limit; any more are closed unheard.
constexpr std::size_t kRefusalRoom = 128;

// One coarse timer looks after all connections: no timer is touched per request or per chunk.
milliseconds sweep_period(const HttpServerConfig& config) {
  const milliseconds shortest = std::min({config.read_timeout, config.idle_timeout, config.write_timeout});
  return std::clamp(shortest / 4, milliseconds(5), milliseconds(250));
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return h.first == name; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct HttpServer::Impl {
  Impl(EventLoop& loop, HttpServerConfig config, HttpHandler handler)
      : core(std::make_shared<HttpServerCore>(
            HttpServerCore{loop, std::move(config), std::move(handler), {}})) {
    core->on_closed = [this](HttpConnection& connection) { forget(connection); };
    if (!core->config.tls_certificate_file.empty())
      tls = std::make_unique<TlsContext>(core->config.tls_certificate_file, core->config.tls_key_file);
    listener = std::make_unique<TcpListener>(
        loop, core->config.host, core->config.port, tls.get(),
        [this](std::unique_ptr<ByteStream> stream) { admit(std::move(stream)); });
    bound_port = listener->port();
  }

  ~Impl() {
    core->on_closed = [](HttpConnection&) {};
    for (const auto& [address, connection] : connections) connection->abandon();
  }

  void admit(std::unique_ptr<ByteStream> stream) {
    const std::size_t limit = core->config.max_connections;
    if (connections.size() >= limit + kRefusalRoom) return;
    auto connection = std::make_shared<HttpConnection>(core, std::move(stream));
    connections.emplace(connection.get(), connection);
    if (sweep == nullptr) sweep = core->loop.every(sweep_period(core->config), [this] { check_deadlines(); });
    if (connections.size() > limit) return connection->refuse();
    connection->start();
  }

  void forget(HttpConnection& connection) {
    connections.erase(&connection);
    if (connections.empty()) sweep.reset();
  }

  template <typename F>
  void for_each(F f) {
    std::vector<std::shared_ptr<HttpConnection>> all;  // f may remove some
    all.reserve(connections.size());
    for (const auto& [address, connection] : connections) all.push_back(connection);
    for (const auto& connection : all) f(*connection);
  }

  void check_deadlines() {
    const auto now = std::chrono::steady_clock::now();
    for_each([now](HttpConnection& connection) { connection.check_deadlines(now); });
  }

  std::shared_ptr<HttpServerCore> core;
  std::unordered_map<HttpConnection*, std::shared_ptr<HttpConnection>> connections;
  std::unique_ptr<TlsContext> tls;
  std::unique_ptr<TcpListener> listener;
  std::unique_ptr<Timer> sweep;
  std::uint16_t bound_port = 0;
};

HttpServer::HttpServer(EventLoop& loop, HttpServerConfig config, HttpHandler handler)
    : impl_(std::make_shared<Impl>(loop, std::move(config), std::move(handler))) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->bound_port; }

void HttpServer::stop_accepting() {
  impl_->listener.reset();
  impl_->for_each([](HttpConnection& connection) { connection.close_when_idle(); });
}

std::size_t HttpServer::open_connections() const { return impl_->connections.size(); }

}  // namespace lynx
