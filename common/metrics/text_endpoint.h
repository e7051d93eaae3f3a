// The pages that every process serves for its operators, on top of an HttpServer:
//   /metrics        the text exposition format
//   /health/startup 200 once what it starts with (a model) is loaded; until then 503 with the reason: wait
//   longer /health/live    200 while the loop turns, a model or not: anything else means that only a restart
//   helps /health/ready   200 when work can be served now; otherwise 503 with the reason: send it elsewhere
//   /version        {"service":...,"version":...}
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
  std::function<Status()> started;                           // an error says what it is busy with
  std::function<Status()> ready;                             // an error says what is missing
  std::map<std::string, std::function<std::string()>> json;  // path -> body

  // Answers when the path is one of these pages; false leaves the request to the caller.
  bool serve(const HttpRequest& request, HttpResponder& responder) const;

  // For a server that has no other pages: anything else is 404. The endpoint must outlive the server.
  HttpHandler handler() const;
};

}  // namespace lynx
