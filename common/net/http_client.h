// HTTP/1.1 client for the load generator and tests: one request per call, connections kept alive and reused
// per endpoint, responses streamed. Everything on the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/result.h"
#include "common/net/event_loop.h"

namespace lynx {

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::chrono::milliseconds timeout{30'000};  // whole call
};

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // empty when on_body took it
};

// Destroying it (or cancel) drops the call: the connection closes and no callback runs any more.
class HttpCallHandle {
 public:
  virtual ~HttpCallHandle() = default;
};

class HttpClient {
 public:
  HttpClient(EventLoop& loop, std::string host, std::uint16_t port);
  ~HttpClient();

  using OnBody = std::function<void(std::string_view piece)>;  // optional: body bytes as they arrive
  using OnDone = std::function<void(Result<HttpReply>)>;       // exactly once, unless dropped
  [[nodiscard]] std::unique_ptr<HttpCallHandle> send(HttpCall call, OnBody on_body, OnDone on_done);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Splits a text/event-stream into the values of its `data:` lines, across any cut of the bytes.
class SseParser {
 public:
  void feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_data);

 private:
  std::string partial_;
};

}  // namespace lynx
