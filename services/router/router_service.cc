#include "services/router/router_service.h"

#include <algorithm>
#include <ctime>
#include <initializer_list>
#include <utility>

#include "common/core/log.h"
#include "common/core/random.h"
#include "common/core/version.h"
#include "services/router/http_replies.h"
#include "services/router/json_text.h"
#include "services/router/live_page.h"
#include "services/router/sequence_builder.h"

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kTick{5};
constexpr std::chrono::milliseconds kFlush{
    100};  // for the last replies to leave after the last call has ended

std::uint64_t unix_seconds() { return static_cast<std::uint64_t>(std::time(nullptr)); }

std::string hex_id(const char* prefix, std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(prefix);
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(value >> shift) & 0xF];
  return out;
}

ApiKeys load_keys(const std::string& path) { return path.empty() ? ApiKeys() : ApiKeys::from_file(path); }

ControlServerConfig control_config(const RouterConfig& config) {
  ControlServerConfig out;
  out.host = config.control_host;
  out.port = config.control_port;
  out.secret = cluster_secret(config);
  return out;
}

ApiError shutting_down() { return draining("this router is shutting down"); }

constexpr std::string_view kModels = "/v1/models";

bool is_one_of(std::string_view path, std::initializer_list<std::string_view> paths) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

// What may be asked of a path, for Allow; empty where there is nothing.
std::string allowed_methods(std::string_view path) {
  if (is_one_of(path, {"/v1/completions", "/v1/chat/completions"})) return "POST";
  if (is_one_of(path, {kModels, "/health/startup", "/health/live", "/health/ready", "/version", "/metrics",
                       "/", "/debug/overview"}))
    return "GET, HEAD";
  return "";
}

}  // namespace

RouterService::RouterService(EventLoop& loop, const RouterConfig& config, Tokenizer tokenizer,
                             std::optional<ChatTemplate> chat)
    : loop_(loop),
      config_(config),
      model_(config.served_model()),
      tokenizer_(std::move(tokenizer)),
      prompts_(tokenizer_, std::move(chat)),
      keys_(load_keys(config.api_keys_file)),
      cache_scope_(cluster_secret(config), config.scopes_cache_by_key()),
      limits_{config.max_choices, ApiLimits{}.max_stops, tokenizer_.vocab_size()},
      started_(unix_seconds()),
      registry_({{"model", model_}}),
      metrics_(registry_, config_.slo_classes, config.policy),
      control_(loop, control_config(config), control_callbacks()),
      dispatcher_(config.dispatch(), config_.slo_classes, clock_, control_, metrics_, random64()),
      calls_{dispatcher_, tokenizer_, metrics_, clock_, config_.slo_classes},
      next_call_(random64()),
      http_(
          loop, config.http(),
          [this](HttpRequest request, const Responder& responder) { handle(std::move(request), responder); }),
      ticker_(loop.every(kTick, [this] { dispatcher_.tick(); })),
      overview_(dispatcher_, metrics_, config_.slo_classes, model_) {
  if (serves_live_page(config_.live_page, config_.http_host))
    overview_ticker_ = loop.every(Overview::kPeriod, [this] { overview_.sample(); });
}

RouterService::~RouterService() = default;

ControlServer::Callbacks RouterService::control_callbacks() {
  ControlServer::Callbacks out;
  out.may_register = [this](const WorkerInfo& info) -> Status {
    if (info.model != model_)
      return {ErrorCode::kIncompatible, "worker '" + info.name + "' serves model '" + info.model +
                                            "', this router serves '" + model_ + "'"};
    return dispatcher_.check_worker(info);
  };
  out.on_up = [this](WorkerId id, WorkerInfo info) {
    const auto replaced = dispatcher_.worker_up(id, std::move(info));
    if (replaced)
      control_.close(*replaced, {ErrorCode::kCancelled, "the worker registered anew on another link"});
  };
  out.on_frame = [this](WorkerId id, proto::Frame::Reader frame) { dispatcher_.on_frame(id, frame); };
  out.on_down = [this](WorkerId id, const std::string& why) { dispatcher_.worker_down(id, why); };
  return out;
}

void RouterService::handle(HttpRequest request, const Responder& responder) {
  const bool get = request.method == "GET";
  const bool post = request.method == "POST";
  const std::string& path = request.path;
  if (path.starts_with("/v1/") && !keys_.allows(request.header("authorization")))
    return respond_error(*responder, wrong_api_key());
  if (post && path == "/v1/completions") return handle_api(ApiKind::kCompletion, request, responder);
  if (post && path == "/v1/chat/completions") return handle_api(ApiKind::kChat, request, responder);
  if (get && path == kModels) return respond_json(*responder, 200, models_body());
  if (get && path.starts_with("/v1/models/"))
    return respond_model(path.substr(kModels.size() + 1), *responder);
  // It listens once its tokenizer is loaded, so there is no start to wait for.
  if (get && path == "/health/startup") return respond_json(*responder, 200, R"({"status":"started"})");
  if (get && path == "/health/live") return respond_json(*responder, 200, R"({"status":"alive"})");
  if (get && path == "/health/ready") return ready(responder);
  if (get && path == "/version")
    return respond_json(*responder, 200,
                        R"({"service":"router","version":")" + std::string(version()) + "\"}");
  if (get && path == "/metrics") {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = registry_.serialize();
    return responder->respond(std::move(response));
  }
  if (get && path == "/" && overview_ticker_) return responder->respond(live_page_response());
  if (get && path == "/debug/overview" && overview_ticker_)
    return respond_json(*responder, 200, overview_.to_json(clock_.now()));
  if (get && is_one_of(path, {"/", "/debug/overview"})) return respond_error(*responder, page_is_off());
  const std::string allowed = allowed_methods(path);
  if (allowed.empty()) return respond_error(*responder, not_found(request.method, path));
  respond_wrong_method(*responder, request.method, path, allowed);
}

void RouterService::respond_model(const std::string& name, HttpResponder& responder) const {
  if (name != model_) return respond_error(responder, model_not_found(name, model_));
  respond_json(responder, 200, model_entry());
}

void RouterService::handle_api(ApiKind kind, const HttpRequest& request, const Responder& responder) {
  const auto error = accept(kind, request, responder);
  if (!error) return;
  metrics_.request_done(error->status);
  respond_error(*responder, *error);
}

// Cheap checks first: an overloaded router must not tokenize what it will turn away.
std::optional<ApiError> RouterService::accept(ApiKind kind, const HttpRequest& request,
                                              const Responder& responder) {
  const auto arrival = clock_.now();
  ApiRequest parsed;
  if (auto error = parse_api_request(kind, request.body, limits_, parsed)) return error;
  if (!parsed.model.empty() && parsed.model != model_) return model_not_found(parsed.model, model_);
  const auto slo = slo_index(parsed.slo_class);
  if (!slo)
    return bad_field("slo_class", "'slo_class' names no class of this router: '" + parsed.slo_class + "'");
  const std::size_t choices = parsed.n * std::max<std::size_t>(parsed.prompts.size(), 1);
  if (auto error = admit(*slo, choices)) return error;

  const std::uint64_t context = dispatcher_.workers().context();
  std::vector<std::vector<TokenId>> prompts;
  if (auto error = prompts_.build(parsed, context, prompts)) return error;
  const SequenceDefaults defaults{config_.default_max_tokens, context, random64(), arrival};
  std::vector<SequenceSpec> sequences;
  if (auto error = build_sequences(parsed, prompts, defaults, config_.slo_classes[*slo], *slo, sequences))
    return error;
  const std::uint64_t cache_salt = cache_scope_.of(request.header("authorization"), parsed.cache_salt);
  for (SequenceSpec& sequence : sequences) sequence.cache_salt = cache_salt;
  launch(parsed, std::move(sequences), responder);
  return std::nullopt;
}

std::optional<ApiError> RouterService::admit(std::size_t slo_index, std::size_t sequences) {
  auto error = gate_.closed() ? std::optional(shutting_down()) : dispatcher_.admit(slo_index, sequences);
  if (gate_.closed()) metrics_.rejected(RejectReason::kDraining);
  if (error)
    for (std::size_t i = 0; i < sequences; ++i) metrics_.slo(slo_index, {});
  return error;
}

void RouterService::launch(const ApiRequest& request, std::vector<SequenceSpec> sequences,
                           const Responder& responder) {
  static_cast<void>(gate_.try_enter());  // admit() has seen it open
  const bool chat = request.kind == ApiKind::kChat;
  ReplyHead head{request.kind, hex_id(chat ? "chatcmpl-" : "cmpl-", next_call_++), model_, unix_seconds()};
  ApiCall::start(calls_, request, std::move(head), std::move(sequences), responder,
                 [this] { gate_.leave(); });
}

std::optional<std::size_t> RouterService::slo_index(const std::string& name) const {
  if (name.empty()) return config_.default_slo_index();
  for (std::size_t i = 0; i < config_.slo_classes.size(); ++i)
    if (config_.slo_classes[i].name == name) return i;
  return std::nullopt;
}

std::string RouterService::models_body() const {
  return R"({"object":"list","data":[)" + model_entry() + "]}";
}

std::string RouterService::model_entry() const {
  std::string out = R"({"id":)";
  append_json_string(out, model_);
  out += R"(,"object":"model","owned_by":"lynx","created":)";
  append_json_number(out, started_);
  if (const std::uint64_t context = dispatcher_.workers().context(); context > 0) {  // what workers hold
    out += R"(,"max_model_len":)";
    append_json_number(out, context);
  }
  return out + "}";
}

void RouterService::ready(const Responder& responder) const {
  if (gate_.closed()) return respond_error(*responder, shutting_down());
  if (!dispatcher_.ready()) return respond_error(*responder, no_workers(dispatcher_.why_not_ready()));
  respond_json(*responder, 200, R"({"status":"ready"})");
}

void RouterService::drain(std::function<void()> stopped) {
  if (gate_.closed()) return;
  log::info("draining: {} requests under way", gate_.holders());
  grace_ = loop_.after(config_.shutdown_grace, [this] {
    log::warn("the grace period is over: {} requests are ended", gate_.holders());
    dispatcher_.fail_all(shutting_down());
  });
  gate_.close([this, stopped = std::move(stopped)] { ticker_ = loop_.after(kFlush, stopped); });
}

}  // namespace lynx
