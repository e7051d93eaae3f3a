#include "loadtest/replay/server_probe.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kOneCall{2000};
constexpr std::chrono::milliseconds kBetween{200};

std::string first_model(const std::string& body) {
  const auto parsed = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("data") || !parsed["data"].is_array() || parsed["data"].empty())
    return "";
  const auto& model = parsed["data"].front();
  return model.is_object() && model.contains("id") && model["id"].is_string() ? model["id"].get<std::string>()
                                                                              : "";
}

}  // namespace

ServerProbe::ServerProbe(EventLoop& loop, HttpClient& client, std::string api_key,
                         std::chrono::milliseconds patience, Done done)
    : loop_(loop), client_(client), api_key_(std::move(api_key)), done_(std::move(done)) {
  deadline_ = loop_.after(patience, [this] {
    finish(Error{ErrorCode::kDeadlineExceeded, "not ready: " + problem_});
  });
  ask_ready();
}

void ServerProbe::ask(const std::string& path, std::function<void(const HttpReply&)> use) {
  HttpCall call{.method = "GET", .target = path, .headers = {}, .body = {}, .timeout = kOneCall};
  if (!api_key_.empty()) call.headers.emplace_back("Authorization", "Bearer " + api_key_);
  call_ =
      client_.send(std::move(call), nullptr, [this, use = std::move(use)](const Result<HttpReply>& reply) {
        if (!reply) return again(reply.error().message);
        use(*reply);
      });
}

void ServerProbe::ask_ready() {
  ask("/health/ready", [this](const HttpReply& reply) {
    if (reply.status == 200 || reply.status == 404) return ask_models();
    again("/health/ready says " + std::to_string(reply.status) + " " + reply.body.substr(0, 200));
  });
}

void ServerProbe::ask_models() {
  ask("/v1/models", [this](const HttpReply& reply) {
    const std::string model = reply.status == 200 ? first_model(reply.body) : "";
    if (!model.empty()) return finish(model);
    again("/v1/models says " + std::to_string(reply.status) + " " + reply.body.substr(0, 200));
  });
}

void ServerProbe::again(std::string problem) {
  problem_ = std::move(problem);
  retry_ = loop_.after(kBetween, [this] { ask_ready(); });
}

void ServerProbe::finish(Result<std::string> result) {
  deadline_.reset();
  retry_.reset();
  call_.reset();
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace lynx
