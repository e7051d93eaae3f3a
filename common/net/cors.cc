#include "common/net/cors.h"

#include <algorithm>

namespace lynx {
namespace {

constexpr std::string_view kAny = "*";

bool allows(const CorsPolicy& policy, std::string_view origin) {
  const auto fits = [&](const std::string& allowed) { return allowed == kAny || allowed == origin; };
  return !origin.empty() && std::any_of(policy.origins.begin(), policy.origins.end(), fits);
}

bool allows_any(const CorsPolicy& policy) {
  return std::find(policy.origins.begin(), policy.origins.end(), kAny) != policy.origins.end();
}

bool covers(const CorsPolicy& policy, const HttpRequest& request) {
  return !policy.origins.empty() && request.path.starts_with(policy.prefix);
}

}  // namespace

bool is_cors_origin(std::string_view text) {
  if (text == kAny) return true;
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/?#@ \t,*") == std::string_view::npos;
}

HttpHeaders cors_headers(const CorsPolicy& policy, const HttpRequest& request) {
  if (!covers(policy, request)) return {};
  if (allows_any(policy))
    return {{"Access-Control-Allow-Origin", std::string(kAny)},
            {"Access-Control-Expose-Headers", "Retry-After"}};
  const std::string_view origin = request.header("origin");
  HttpHeaders out{{"Vary", "Origin"}};  // a cache must not hand this answer to another origin
  if (!allows(policy, origin)) return out;
  out.emplace_back("Access-Control-Allow-Origin", origin);
  out.emplace_back("Access-Control-Expose-Headers", "Retry-After");
  return out;
}

bool is_allowed_preflight(const CorsPolicy& policy, const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.header("access-control-request-method").empty() &&
         covers(policy, request) && allows(policy, request.header("origin"));
}

HttpResponse preflight_response(const HttpRequest& request) {
  HttpResponse out;
  out.status = 204;
  out.content_type.clear();
  out.headers = {{"Access-Control-Allow-Methods", "GET, POST"}, {"Access-Control-Max-Age", "600"}};
  // Clients send headers of their own along, with their name and version for one: all may come, none is read.
  const std::string_view asked = request.header("access-control-request-headers");
  if (!asked.empty()) out.headers.emplace_back("Access-Control-Allow-Headers", asked);
  return out;
}

}  // namespace lynx
