#include "tests/services/router/router_rig.h"
#include "tests/support/patience.h"

#include <algorithm>

namespace lynx::testing {
namespace {

using nlohmann::json;

constexpr const char* kTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

RouterConfig rig_config(const std::function<void(RouterConfig&)>& change) {
  RouterConfig config;
  config.model_path = "stub";
  config.http_port = 0;
  config.control_port = 0;
  if (change) change(config);
  config.validate();
  return config;
}

std::string text_of(const json& choice) {
  if (choice.contains("text")) return choice["text"];
  if (choice.contains("message")) return choice["message"]["content"];
  return choice["delta"].value("content", "");
}

}  // namespace

std::string ApiExchange::text(std::uint32_t choice) const {
  std::string out;
  const auto add = [&](const json& one_reply) {
    if (!one_reply.contains("choices")) return;
    for (const auto& one : one_reply["choices"])
      if (one["index"] == choice) out += text_of(one);
  };
  if (events.empty()) add(reply());
  for (const auto& event : events) add(event);
  return out;
}

std::string ApiExchange::finish_reason(std::uint32_t choice) const {
  std::string out;
  const auto look = [&](const json& one_reply) {
    if (!one_reply.contains("choices")) return;
    for (const auto& one : one_reply["choices"])
      if (one["index"] == choice && one["finish_reason"].is_string()) out = one["finish_reason"];
  };
  if (events.empty()) look(reply());
  for (const auto& event : events) look(event);
  return out;
}

std::string ApiExchange::error_code() const {
  const auto last = events.empty() ? reply() : events.back();
  return last.contains("error") ? last["error"].value("code", "") : "";
}

nlohmann::json hello(int max_tokens, bool stream) {
  return {{"prompt", "hello"}, {"max_tokens", max_tokens}, {"stream", stream}};
}

nlohmann::json hello_with_receipt(int max_tokens, bool stream) {
  nlohmann::json request = hello(max_tokens, stream);
  request["lynx"] = {{"receipt", true}};
  if (stream) request["stream_options"] = {{"include_usage", true}};
  return request;
}

RouterRig::RouterRig(const std::function<void(RouterConfig&)>& change)
    : router(std::make_unique<RouterService>(loop, rig_config(change),
                                             Tokenizer::from_json(byte_tokenizer_json(), "bytes"),
                                             ChatTemplate::parse(kTemplate, "stub"))),
      client_(std::make_unique<HttpClient>(loop, "127.0.0.1", router->http_port())) {}

RouterRig::~RouterRig() { calls_.clear(); }

StubToken RouterRig::scripted(std::uint32_t index) const {
  if (index >= script_.size()) return {kStubTurnEnd, proto::FinishReason::STOP};
  return {static_cast<unsigned char>(script_[index]), proto::FinishReason::NONE};
}

StubWorker& RouterRig::add(proto::Role role, const std::string& name,
                           const std::function<void(StubOptions&)>& change, StubWorker::Hooks hooks) {
  StubOptions options;
  options.role = role;
  options.name = name;
  options.token = [this](std::uint64_t, std::uint32_t index) { return scripted(index); };
  if (change) change(options);
  workers_.push_back(std::make_unique<StubWorker>(loop, fleet, router->control_port(), std::move(options),
                                                  std::move(hooks)));
  return *workers_.back();
}

void RouterRig::add_pair() {
  add(proto::Role::PREFILL, "p");
  add(proto::Role::DECODE, "d");
  until([&] { return router->dispatcher().ready(); });
}

void RouterRig::kill(StubWorker& worker) {
  std::erase_if(workers_, [&](const auto& one) { return one.get() == &worker; });
}

ApiExchange& RouterRig::post(const json& body, const std::string& path) {
  return post_raw(body.dump(), path);
}

ApiExchange& RouterRig::post_raw(std::string body, const std::string& path,
                                 std::vector<std::pair<std::string, std::string>> headers) {
  HttpCall call;
  call.method = "POST";
  call.target = path;
  call.headers = std::move(headers);
  call.headers.emplace_back("content-type", "application/json");
  call.body = std::move(body);
  return send(std::move(call));
}

ApiExchange& RouterRig::get(const std::string& path,
                            std::vector<std::pair<std::string, std::string>> headers) {
  HttpCall call;
  call.target = path;
  call.headers = std::move(headers);
  return send(std::move(call));
}

ApiExchange& RouterRig::send(HttpCall call) {
  Open& open = calls_.emplace_back();
  open.handle = client_->send(
      std::move(call),
      [&open](std::string_view piece) {
        open.exchange.body += piece;
        open.parser.feed(piece, [&open](std::string_view data) {
          if (data == "[DONE]") {
            open.exchange.done_event = true;
          } else {
            open.exchange.events.push_back(json::parse(data));
          }
        });
      },
      [&open](Result<HttpReply> reply) {
        open.exchange.over = true;
        if (!reply) {
          open.exchange.transport_error = reply.error();
          return;
        }
        open.exchange.status = reply->status;
        for (const auto& [name, value] : reply->headers) open.exchange.headers[name] = value;
      });
  return open.exchange;
}

void RouterRig::hang_up(ApiExchange& exchange) {
  for (auto& open : calls_)
    if (&open.exchange == &exchange) open.handle.reset();
}

void RouterRig::until(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  bool held = false;
  const auto poll = loop.every(std::chrono::microseconds(500), [&] {
    held = condition();
    if (held || std::chrono::steady_clock::now() > end) loop.stop();
  });
  loop.run();
  EXPECT_TRUE(held) << "waited in vain";
}

void RouterRig::run_for(std::chrono::milliseconds time) {
  const auto timer = loop.after(time, [&] { loop.stop(); });
  loop.run();
}

bool RouterRig::all_idle() const {
  const auto& dispatcher = router->dispatcher();
  const auto& all = dispatcher.workers().all();
  return dispatcher.live() == 0 && dispatcher.queued() == 0 &&
         std::all_of(all.begin(), all.end(), [](const auto& entry) { return entry.second.requests == 0; }) &&
         std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->holding() == 0; });
}

}  // namespace lynx::testing
