#include "common/metrics/text_endpoint.h"

#include <nlohmann/json.hpp>

#include "common/core/version.h"

namespace lynx {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

HttpResponse page(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse error_page(int status, const std::string& message, const std::string& code) {
  Json error{{"message", message}, {"type", "invalid_request_error"}, {"param", nullptr}, {"code", code}};
  HttpResponse response = page(dump({{"error", std::move(error)}}));
  response.status = status;
  return response;
}

HttpResponse probe_page(const Status& status, const char* good, const char* bad) {
  if (status) return page(dump({{"status", good}}));
  HttpResponse response = page(dump({{"status", bad}, {"reason", status.error().message}}));
  response.status = 503;
  return response;
}

HttpResponse metrics_page(std::string text) {
  HttpResponse response = page(std::move(text));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

}  // namespace

bool TextEndpoint::serve(const HttpRequest& request, HttpResponder& responder) const {
  const auto answer = [&](const auto& make_response) {
    if (request.method == "GET") {
      responder.respond(make_response());
    } else {
      HttpResponse refusal = error_page(405, request.path + " answers GET only", "method_not_allowed");
      refusal.headers.emplace_back("Allow", "GET, HEAD");
      responder.respond(std::move(refusal));
    }
    return true;
  };
  if (request.path == "/metrics" && metrics) return answer([&] { return metrics_page(metrics()); });
  if (request.path == "/health/startup")
    return answer([&] { return probe_page(started ? started() : Status(), "started", "starting"); });
  if (request.path == "/health/live") return answer([] { return page(dump({{"status", "live"}})); });
  if (request.path == "/health/ready")
    return answer([&] { return probe_page(ready ? ready() : Status(), "ready", "not ready"); });
  if (request.path == "/version")
    return answer([&] { return page(dump({{"service", service}, {"version", version()}})); });
  if (const auto found = json.find(request.path); found != json.end())
    return answer([&] { return page(found->second()); });
  return false;
}

HttpHandler TextEndpoint::handler() const {
  return [this](const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
    if (serve(request, *responder)) return;
    responder->respond(error_page(404, "no page " + request.path, "not_found"));
  };
}

}  // namespace lynx
