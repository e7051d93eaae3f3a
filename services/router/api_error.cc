#include "services/router/api_error.h"

#include <utility>

#include "services/router/json_text.h"

namespace lynx {

ApiError bad_field(std::string param, std::string message) {
  const std::string code = param.empty() ? "invalid_body" : "invalid_value";
  return {400, "invalid_request_error", std::move(message), std::move(param), code, 0};
}

ApiError model_not_found(const std::string& asked, const std::string& served) {
  return {
      404,     "invalid_request_error", "the model '" + asked + "' is not served here; '" + served + "' is",
      "model", "model_not_found",       0};
}

ApiError wrong_api_key() {
  return {401, "authentication_error", "a valid API key is needed: Authorization: Bearer KEY",
          "",  "invalid_api_key",      0};
}

ApiError not_found(std::string_view method, std::string_view path) {
  return {404, "invalid_request_error", "there is no " + std::string(method) + " " + std::string(path),
          "",  "unknown_url",           0};
}

ApiError wrong_method(std::string_view method, std::string_view path, std::string_view allowed) {
  return {405,
          "invalid_request_error",
          std::string(path) + " takes " + std::string(allowed) + ", not " + std::string(method),
          "",
          "method_not_allowed",
          0};
}

ApiError page_is_off() {
  return {
      404,
      "invalid_request_error",
      "the router's page is off: 'http.live_page: on' serves it, 'auto' does on a loopback 'http.host' alone",
      "",
      "page_is_off",
      0};
}

ApiError overloaded(std::string message, int retry_after_s) {
  return {429, "rate_limit_error", std::move(message), "", "overloaded", retry_after_s};
}

ApiError no_workers(std::string message) {
  return {503, "server_error", std::move(message), "", "no_workers", 1};
}

ApiError draining(std::string message) {
  return {503, "server_error", std::move(message), "", "draining", 1};
}

ApiError workers_failed(std::string message) {
  return {503, "server_error", std::move(message), "", "workers_failed", 1};
}

ApiError deadline_exceeded(std::string message) {
  return {504, "server_error", std::move(message), "", "deadline_exceeded", 0};
}

ApiError internal_error(std::string message) {
  return {500, "server_error", std::move(message), "", "internal_error", 0};
}

std::string to_json(const ApiError& error) {
  const auto text_or_null = [](std::string& out, const std::string& text) {
    if (text.empty()) {
      out += "null";
    } else {
      append_json_string(out, text);
    }
  };
  std::string out = R"({"error":{"message":)";
  append_json_string(out, error.message);
  out += R"(,"type":)";
  append_json_string(out, error.type);
  out += R"(,"param":)";
  text_or_null(out, error.param);
  out += R"(,"code":)";
  text_or_null(out, error.code);
  out += "}}";
  return out;
}

}  // namespace lynx
