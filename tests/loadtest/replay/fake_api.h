// A small server that speaks the API, with a thread of its own: streams max_tokens pieces at once, refuses
// every n-th request, and is not ready for as long as `ready` says no.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/net/event_loop.h"
#include "common/net/http_server.h"

namespace lynx::testing {

class FakeApi {
 public:
  explicit FakeApi(int refuse_every = 0, std::function<bool()> ready = {})
      : refuse_every_(refuse_every), ready_(std::move(ready)) {
    std::promise<std::uint16_t> port;
    auto listening = port.get_future();
    thread_ = std::thread([this, &port] {
      HttpServer server(
          loop_, {}, [this](const HttpRequest& r, std::shared_ptr<HttpResponder> out) { handle(r, *out); });
      port.set_value(server.port());
      loop_.run();
    });
    port_ = listening.get();
  }
  ~FakeApi() {
    loop_.stop();
    thread_.join();
  }
  FakeApi(const FakeApi&) = delete;
  FakeApi& operator=(const FakeApi&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int served() const { return served_; }
  std::vector<std::string> prompts() const {
    const std::lock_guard lock(mutex_);
    return prompts_;
  }

 private:
  void handle(const HttpRequest& request, HttpResponder& out) {
    if (request.path == "/health/ready") return answer(out, ready_ && !ready_() ? 503 : 200, "{}");
    if (request.path != "/v1/completions") return answer(out, 200, R"({"data":[{"id":"fake-model"}]})");
    const int n = ++served_;
    if (refuse_every_ > 0 && n % refuse_every_ == 0)
      return answer(out, 429, R"({"error":{"message":"full"}})");
    const auto body = nlohmann::json::parse(request.body);
    {
      const std::lock_guard lock(mutex_);
      prompts_.push_back(body["prompt"]);
    }
    const int tokens = body["max_tokens"];
    out.begin_stream(200, "text/event-stream");
    for (int i = 0; i < tokens; ++i) out.write("data: {\"choices\":[{\"text\":\"x\"}]}\n\n");
    out.write("data: [DONE]\n\n");
    out.finish();
  }
  static void answer(HttpResponder& out, int status, std::string body) {
    HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    out.respond(std::move(response));
  }

  const int refuse_every_;
  const std::function<bool()> ready_;  // asked on the server's thread
  std::atomic<int> served_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> prompts_;
  EventLoop loop_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace lynx::testing
