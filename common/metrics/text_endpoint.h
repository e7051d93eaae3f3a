// The pages that every process serves for its operators, on top of an HttpServer:
//   /metrics        the text exposition format
//   /health/live    200 while the loop turns (never depends on a model being loaded: a restart would not
//   help) /health/ready   200, or 503 with the reason why not /version        {"service":...,"version":...}
//   and JSON pages such as /debug/kv
// Callbacks run on the loop's thread, once per request.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "common/core/result.h"
#include "common/net/http_server.h"

namespace lynx {

struct TextEndpoint {
  std::string service;                                       // router, prefill, decode
  std::function<std::string()> metrics;                      // MetricsRegistry::serialize
  std::function<Status()> ready;                             // an error says what is missing
  std::map<std::string, std::function<std::string()>> json;  // path -> body

  // Answers when the path is one of these pages; false leaves the request to the caller.
  bool serve(const HttpRequest& request, HttpResponder& responder) const;

  // For a server that has no other pages: anything else is 404. The endpoint must outlive the server.
  HttpHandler handler() const;
};

}  // namespace lynx
