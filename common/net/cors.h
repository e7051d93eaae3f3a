// Cross-origin requests (CORS, Fetch standard 3.2): which pages of other origins a browser lets read our
// answers. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/net/http_server.h"

namespace lynx {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// "*", or scheme://host[:port] as a browser sends it: no path, no slash at the end.
bool is_cors_origin(std::string_view text);

// What an answer to this request must carry so that the page that asks may read it. Empty for a path that the
// policy does not cover and where it allows nobody.
HttpHeaders cors_headers(const CorsPolicy& policy, const HttpRequest& request);

// A browser asks ahead of a request that a plain form could not send. Only where its origin is allowed.
bool is_allowed_preflight(const CorsPolicy& policy, const HttpRequest& request);
HttpResponse preflight_response(const HttpRequest& request);  // without cors_headers

}  // namespace lynx
