// A whole router with stub workers and a client, over real loopback sockets, on one loop in one thread.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/net/http_client.h"
#include "loadtest/stub/byte_tokenizer.h"
#include "loadtest/stub/stub_worker.h"
#include "services/router/router_service.h"

namespace lynx::testing {

// One API call as its client sees it.
struct ApiExchange {
  int status = 0;
  std::string body;  // not streamed
  std::map<std::string, std::string> headers;
  std::vector<nlohmann::json> events;  // streamed, without [DONE]
  bool done_event = false;
  bool over = false;
  std::optional<Error> transport_error;

  nlohmann::json reply() const { return nlohmann::json::parse(body); }
  std::string text(std::uint32_t choice = 0) const;  // of the events or of the body
  std::string finish_reason(std::uint32_t choice = 0) const;
  std::string error_code() const;  // of the body or of the last event
};

// A completion of the prompt "hello"; and one whose usage has a receipt.
nlohmann::json hello(int max_tokens, bool stream = false);
nlohmann::json hello_with_receipt(int max_tokens, bool stream);

class RouterRig {
 public:
  explicit RouterRig(const std::function<void(RouterConfig&)>& change = nullptr);
  ~RouterRig();

  StubWorker& add(proto::Role role, const std::string& name,
                  const std::function<void(StubOptions&)>& change = nullptr, StubWorker::Hooks hooks = {});
  void add_pair();  // prefill "p", decode "d", both registered on return
  void kill(StubWorker& worker);

  // The decode side writes this text, one byte a token, whatever the prompt; then end of sequence.
  void script(std::string text) { script_ = std::move(text); }

  ApiExchange& post(const nlohmann::json& body, const std::string& path = "/v1/completions");
  ApiExchange& post_raw(std::string body, const std::string& path,
                        std::vector<std::pair<std::string, std::string>> headers = {});
  ApiExchange& get(const std::string& path, std::vector<std::pair<std::string, std::string>> headers = {});
  void hang_up(ApiExchange& exchange);

  // Runs the loop until the condition holds; fails the test when it never does.
  void until(const std::function<bool()>& condition);
  void until_over(const ApiExchange& exchange) {
    until([&] { return exchange.over; });
  }
  void run_for(std::chrono::milliseconds time);
  bool all_idle() const;  // nothing is held anywhere, nothing is reserved

  EventLoop loop;
  StubFleet fleet;
  std::unique_ptr<RouterService> router;

 private:
  ApiExchange& send(HttpCall call);
  StubToken scripted(std::uint32_t index) const;

  struct Open {
    ApiExchange exchange;
    SseParser parser;
    std::unique_ptr<HttpCallHandle> handle;
  };
  std::string script_ = "abcdefghijklmnopqrstuvwxyz";
  std::unique_ptr<HttpClient> client_;
  std::list<std::unique_ptr<StubWorker>> workers_;
  std::list<Open> calls_;
};

}  // namespace lynx::testing
