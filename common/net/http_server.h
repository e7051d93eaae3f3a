// HTTP/1.1 server for the OpenAI API, metrics and health, over Beast. It owns its sockets; everything runs on
// the loop's thread. Limits are enforced before a handler sees a request: a larger body gets 413, larger
// headers 431, a malformed request 400, a client slower than its timeout is closed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/net/event_loop.h"

namespace lynx {

// Pages of which origins may read the answers, and to which paths. See cors.h.
struct CorsPolicy {
  std::vector<std::string> origins;  // empty = none
  std::string prefix = "/v1/";
};

struct HttpServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0 = any free one; see HttpServer::port()
  std::size_t max_body_bytes = 8 << 20;
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_connections = 4096;
  std::size_t max_write_buffer_bytes = 1 << 20;     // a client that lets this much pile up is closed
  std::chrono::milliseconds read_timeout{30'000};   // whole request, once its first byte is in
  std::chrono::milliseconds idle_timeout{120'000};  // between requests of a kept-alive connection
  std::chrono::milliseconds write_timeout{30'000};  // without any progress
  std::string tls_certificate_file;                 // PEM chain; empty = plain HTTP
  std::string tls_key_file;
  CorsPolicy cors;
};

struct HttpRequest {
  std::string method;  // GET, POST, ...; HEAD comes as GET, its body is left out
  std::string path;    // without the query
  std::string query;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  // Empty when absent. name in lower case.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// One response in the making. Shared with the server: it may outlive the connection, calls then do nothing.
// Exactly one of respond() or begin_stream()...finish() per request. Dropped without either: the client gets
// a 500.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  virtual void respond(HttpResponse response) = 0;

  // Chunked streaming (server-sent events use content type text/event-stream).
  virtual void begin_stream(int status, std::string_view content_type) = 0;
  virtual void write(std::string chunk) = 0;  // buffered; chunks of one loop turn leave in one system call
  virtual void finish() = 0;

  // Once, from the loop, when the client goes away before the response is complete (a half-close is none: the
  // client still reads). Not called after finish()/respond(), nor when the server itself is destroyed.
  virtual void on_disconnect(std::function<void()> gone) = 0;
  virtual bool connected() const = 0;
};

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpResponder>)>;

class HttpServer {
 public:
  // Listens at once. Throws std::runtime_error naming host and port when it cannot.
  HttpServer(EventLoop& loop, HttpServerConfig config, HttpHandler handler);
  ~HttpServer();

  std::uint16_t port() const;
  void stop_accepting();  // requests under way go on
  std::size_t open_connections() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lynx
