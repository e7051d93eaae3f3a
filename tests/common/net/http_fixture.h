// A server on a loop thread of its own; tests set the handler's behaviour per path.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "common/net/http_server.h"
#include "tests/common/net/loop_thread.h"
#include "tests/common/net/raw_client.h"
#include "tests/support/patience.h"

namespace lynx {

class HttpFixture : public ::testing::Test {
 protected:
  void serve(HttpServerConfig config, HttpHandler handler) {
    thread_.on_loop(
        [&] { server_ = std::make_unique<HttpServer>(thread_.loop(), config, std::move(handler)); });
  }
  // Says what it saw: method, path, query and body.
  void serve_echo(HttpServerConfig config = {}) {
    serve(config, [](const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
      HttpResponse response;
      response.body = request.method + " " + request.path + " ? " + request.query + " : " + request.body;
      responder->respond(std::move(response));
    });
  }
  void TearDown() override {
    thread_.on_loop([&] { server_.reset(); });
  }

  std::uint16_t port() const { return server_->port(); }
  std::size_t open_connections() {
    return thread_.on_loop([&] { return server_->open_connections(); });
  }
  bool wait_for_connections(std::size_t count) {
    return thread_eventually([&] { return server_->open_connections() == count; });
  }
  // Asks on the loop's thread, again and again.
  bool thread_eventually(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (!thread_.on_loop(condition)) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::yield();
    }
    return true;
  }

  LoopThread thread_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace lynx
