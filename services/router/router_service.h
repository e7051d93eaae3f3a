// The router as one object: the API over HTTP, the control plane, and the dispatcher between them, on one
// loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/core/gate.h"
#include "common/net/event_loop.h"
#include "common/net/http_server.h"
#include "common/text/tokenizer.h"
#include "services/router/api_call.h"
#include "services/router/api_keys.h"
#include "services/router/cache_scope.h"
#include "services/router/control_server.h"
#include "services/router/overview.h"
#include "services/router/prompt_builder.h"
#include "services/router/router_config.h"

namespace lynx {

class RouterService {
 public:
  // config has been validated. Listens at once. Throws std::runtime_error or ConfigError with the cause.
  RouterService(EventLoop& loop, const RouterConfig& config, Tokenizer tokenizer,
                std::optional<ChatTemplate> chat);
  ~RouterService();
  RouterService(const RouterService&) = delete;
  RouterService& operator=(const RouterService&) = delete;

  // Not ready any more; new requests get 503; those under way go on for the grace period, then fail. stopped
  // runs when the last has left.
  void drain(std::function<void()> stopped);

  std::uint16_t http_port() const { return http_.port(); }
  std::uint16_t control_port() const { return control_.port(); }
  const Dispatcher& dispatcher() const { return dispatcher_; }

 private:
  using Responder = std::shared_ptr<HttpResponder>;

  void handle(HttpRequest request, const Responder& responder);
  void handle_api(ApiKind kind, const HttpRequest& request, const Responder& responder);
  std::optional<ApiError> accept(ApiKind kind, const HttpRequest& request, const Responder& responder);
  std::optional<ApiError> admit(std::size_t slo_index, std::size_t sequences);
  void launch(const ApiRequest& request, std::vector<SequenceSpec> sequences, const Responder& responder);
  std::optional<std::size_t> slo_index(const std::string& name) const;
  ControlServer::Callbacks control_callbacks();
  std::string models_body() const;
  std::string model_entry() const;
  void respond_model(const std::string& name, HttpResponder& responder) const;
  void ready(const Responder& responder) const;

  EventLoop& loop_;
  const RouterConfig config_;
  const std::string model_;
  const Tokenizer tokenizer_;
  const PromptBuilder prompts_;
  const ApiKeys keys_;
  const CacheScope cache_scope_;
  const ApiLimits limits_;
  const std::uint64_t started_;  // Unix seconds
  SteadyClock clock_;
  MetricsRegistry registry_;
  RouterMetrics metrics_;
  ControlServer control_;
  Dispatcher dispatcher_;
  CallContext calls_;
  Gate gate_;
  std::uint64_t next_call_;
  HttpServer http_;
  std::unique_ptr<Timer> ticker_;
  Overview overview_;
  std::unique_ptr<Timer> overview_ticker_;  // null: the live page is off
  std::unique_ptr<Timer> grace_;
};

// main without the process: reads the model folder, serves until SIGTERM, returns when drained.
void run_router(const RouterConfig& config);

}  // namespace lynx
