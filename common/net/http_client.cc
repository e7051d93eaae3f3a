#include "common/net/http_client.h"

#include <algorithm>
#include <vector>

#include "common/net/byte_stream.h"
#include "common/net/http_parser.h"

namespace lynx {
namespace {

class Call;

// One connection: serves a call, or waits in the pool for the next.
struct ClientConnection {
  std::unique_ptr<ByteStream> stream;
  Call* call = nullptr;
};

// The idle connections of one endpoint. Shared with the calls under way, which bring theirs back.
class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  ConnectionPool(EventLoop& l, std::string h, std::uint16_t p) : loop(l), host(std::move(h)), port(p) {}

  std::unique_ptr<ClientConnection> take() {
    if (idle_.empty()) return nullptr;
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  void give_back(std::unique_ptr<ClientConnection> connection) {
    connection->call = nullptr;
    idle_.push_back(std::move(connection));
  }
  // The server has closed it, or spoke out of turn.
  void forget(const ClientConnection* connection) {
    std::erase_if(idle_, [&](const auto& c) { return c.get() == connection; });
  }
  std::unique_ptr<ClientConnection> adopt(std::unique_ptr<ByteStream> stream);

  EventLoop& loop;
  const std::string host;
  const std::uint16_t port;

 private:
  std::vector<std::unique_ptr<ClientConnection>> idle_;
};

std::string serialize(const HttpCall& call, const ConnectionPool& pool) {
  std::string out;
  out.reserve(256 + call.body.size());
  out += call.method + " " + call.target + " HTTP/1.1\r\nHost: " + pool.host + ":" +
         std::to_string(pool.port) + "\r\n";
  for (const auto& [name, value] : call.headers) out += name + ": " + value + "\r\n";
  if (!call.body.empty() || call.method == "POST" || call.method == "PUT")
    out += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  out += "\r\n";
  return out += call.body;
}

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(std::shared_ptr<ConnectionPool> pool, HttpCall request, HttpClient::OnBody on_body,
       HttpClient::OnDone on_done)
      : pool_(std::move(pool)),
        request_(std::move(request)),
        on_body_(std::move(on_body)),
        on_done_(std::move(on_done)) {}

  void start() {
    timer_ = pool_->loop.after(request_.timeout, [this] {
      finish(Error{ErrorCode::kDeadlineExceeded,
                   "no complete reply within " + std::to_string(request_.timeout.count()) + " ms"});
    });
    deadline_ = std::chrono::steady_clock::now() + request_.timeout;
    auto connection = pool_->take();
    reused_ = connection != nullptr;
    if (reused_) return send_on(std::move(connection));
    connect();
  }

  void cancel() {
    on_done_ = nullptr;
    timer_.reset();
    connecting_.reset();
    connection_.reset();
  }

  void on_bytes(std::string_view bytes) {
    const auto self = shared_from_this();  // on_body or on_done may drop the handle
    reused_ = false;                       // it answers: no retry
    if (!partial_.empty()) {
      partial_ += bytes;
      const std::string joined = std::exchange(partial_, {});
      return parse(joined);
    }
    parse(bytes);
  }

  void on_end(const Error& error) {
    const auto self = shared_from_this();
    if (reused_) {  // it was closed while it waited for us: the server has not seen this call
      reused_ = false;
      connection_.reset();
      return connect();
    }
    reader_->end_of_stream();
    if (reader_->state() == ParseState::kDone) return finish_reply();
    finish(Error{error.code, error.message + " before the reply was complete"});
  }

 private:
  void connect() {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    connecting_ = connect_tcp(pool_->loop, pool_->host, pool_->port, left,
                              [this](Result<std::unique_ptr<ByteStream>> stream) {
                                if (!stream) return finish(stream.error());
                                send_on(pool_->adopt(std::move(*stream)));
                              });
  }

  void send_on(std::unique_ptr<ClientConnection> connection) {
    connection_ = std::move(connection);
    connection_->call = this;
    reset_reader();
    connection_->stream->out() += serialize(request_, *pool_);
    connection_->stream->flush_soon();
  }

  void reset_reader() {
    HttpClient::OnBody guarded;
    if (on_body_)
      guarded = [this](std::string_view piece) {
        if (on_done_) on_body_(piece);
      };
    reader_ = std::make_unique<HttpReplyReader>(request_.method == "HEAD", std::move(guarded));
  }

  void parse(std::string_view bytes) {
    while (on_done_ && !bytes.empty()) {
      const std::size_t used = reader_->feed(bytes);
      bytes.remove_prefix(used);
      if (!on_done_) return;
      if (reader_->state() == ParseState::kBad)
        return finish(Error{ErrorCode::kCorrupt, "malformed reply: " + reader_->problem()});
      if (reader_->state() == ParseState::kDone) {
        if (!reader_->interim()) return finish_reply(bytes.empty());
        reset_reader();  // 1xx: the real reply follows
      } else if (used == 0) {
        break;
      }
    }
    partial_ = bytes;
  }

  void finish_reply(bool reusable = false) {
    HttpReply reply = reader_->take();
    if (reusable && reader_->keep_alive() && connection_ != nullptr) pool_->give_back(std::move(connection_));
    finish(std::move(reply));
  }

  void finish(Result<HttpReply> result) {
    const auto self = shared_from_this();
    const auto done = std::exchange(on_done_, nullptr);
    if (!done) return;
    cancel();
    done(std::move(result));
  }

  std::shared_ptr<ConnectionPool> pool_;
  const HttpCall request_;
  const HttpClient::OnBody on_body_;
  HttpClient::OnDone on_done_;  // null: done or dropped
  std::chrono::steady_clock::time_point deadline_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<Pending> connecting_;
  std::unique_ptr<ClientConnection> connection_;
  std::unique_ptr<HttpReplyReader> reader_;
  std::string partial_;  // of a header that is not whole yet
  bool reused_ = false;  // on a kept-alive connection that has not answered yet
};

std::unique_ptr<ClientConnection> ConnectionPool::adopt(std::unique_ptr<ByteStream> stream) {
  auto connection = std::make_unique<ClientConnection>();
  connection->stream = std::move(stream);
  const auto on_bytes = [this, c = connection.get()](std::string_view bytes) {
    const auto self = shared_from_this();
    c->call != nullptr ? c->call->on_bytes(bytes) : forget(c);
  };
  const auto on_end = [this, c = connection.get()](const Error& error) {
    const auto self = shared_from_this();
    c->call != nullptr ? c->call->on_end(error) : forget(c);
  };
  connection->stream->start({on_bytes, on_end});
  return connection;
}

class CallHandle final : public HttpCallHandle {
 public:
  explicit CallHandle(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~CallHandle() override { call_->cancel(); }

 private:
  std::shared_ptr<Call> call_;
};

}  // namespace

struct HttpClient::Impl {
  std::shared_ptr<ConnectionPool> pool;
};

HttpClient::HttpClient(EventLoop& loop, std::string host, std::uint16_t port)
    : impl_(std::make_shared<Impl>(Impl{std::make_shared<ConnectionPool>(loop, std::move(host), port)})) {}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpCallHandle> HttpClient::send(HttpCall call, OnBody on_body, OnDone on_done) {
  auto under_way =
      std::make_shared<Call>(impl_->pool, std::move(call), std::move(on_body), std::move(on_done));
  under_way->start();
  return std::make_unique<CallHandle>(std::move(under_way));
}

}  // namespace lynx
