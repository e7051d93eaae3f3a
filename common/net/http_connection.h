// One client's connection: reads a request, hands it to the handler, writes its response, and again. A read
// is always outstanding, so a client that leaves is noticed while its response is still being made. Internal
// to common/net.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/net/byte_stream.h"
#include "common/net/cors.h"
#include "common/net/http_format.h"
#include "common/net/http_parser.h"
#include "common/net/http_server.h"

namespace lynx {

class HttpConnection;
class Responder;

// What a connection knows of its server.
struct HttpServerCore {
  EventLoop& loop;
  HttpServerConfig config;
  HttpHandler handler;
  std::function<void(HttpConnection&)> on_closed;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  HttpConnection(std::shared_ptr<HttpServerCore> core, std::unique_ptr<ByteStream> stream);
  ~HttpConnection();

  void start();
  void refuse();  // over the limit: 503, then close
  void check_deadlines(TimePoint now);
  void close_when_idle();  // no further request on this connection
  void abandon();          // the server is going: close, call nobody

  // For the responder of the request under way.
  bool open() const { return stream_ != nullptr && !doomed_; }
  void respond(const HttpResponse& response);
  void begin_stream(int status, std::string_view content_type);
  void write_chunk(std::string_view chunk);
  void finish_stream();
  void give_up(bool streaming);  // dropped by its handler

 private:
  enum class State { kIdle, kReading, kResponding, kLingering };

  void on_bytes(std::string_view bytes);
  bool on_half_close();
  void probe();
  std::size_t parse(std::string_view bytes);
  std::size_t read_request(std::string_view bytes);
  void parse_buffered();
  void dispatch();
  void finish_response();
  void send_and_close(const HttpResponse& response);
  void linger();
  void drop();  // from the loop only: tells the handler that its client is gone
  void drop_soon();
  HttpHeaders with_cors(const HttpHeaders& headers) const;
  http_format::Head head_of(int status, std::string_view content_type) const;

  std::shared_ptr<HttpServerCore> core_;
  std::unique_ptr<ByteStream> stream_;  // null once closed
  HttpRequestReader reader_;
  State state_ = State::kIdle;
  TimePoint deadline_;  // of every state but kResponding
  std::string early_;   // bytes that came before their turn
  std::weak_ptr<Responder> responder_;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;  // HEAD
  bool chunked_ = false;
  bool continued_ = false;  // 100 Continue is out
  bool parsing_ = false;
  bool last_request_ = false;
  bool doomed_ = false;        // will be dropped when the loop comes round
  bool client_done_ = false;   // it sends nothing more
  bool streaming_ = false;     // the head of a stream is out
  bool event_stream_ = false;  // of events
  HttpHeaders cors_;           // of the response under way
};

// The handler's side of one request.
class Responder final : public HttpResponder {
 public:
  Responder(EventLoop& loop, std::weak_ptr<HttpConnection> connection)
      : loop_(loop), connection_(std::move(connection)) {}
  ~Responder() override;

  void respond(HttpResponse response) override;
  void begin_stream(int status, std::string_view content_type) override;
  void write(std::string chunk) override;
  void finish() override;
  void on_disconnect(std::function<void()> gone) override;
  bool connected() const override;

  void client_gone();

 private:
  enum class Phase { kWaiting, kStreaming, kDone, kGone };
  std::shared_ptr<HttpConnection> open_connection() const;
  void complete();

  EventLoop& loop_;
  std::weak_ptr<HttpConnection> connection_;
  std::function<void()> gone_;
  Phase phase_ = Phase::kWaiting;
};

}  // namespace lynx
