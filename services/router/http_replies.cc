#include "services/router/http_replies.h"

#include <utility>

namespace lynx {

void respond_json(HttpResponder& responder, int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  responder.respond(std::move(response));
}

void respond_error(HttpResponder& responder, const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = to_json(error);
  if (error.retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  responder.respond(std::move(response));
}

void respond_wrong_method(HttpResponder& responder, std::string_view method, std::string_view path,
                          std::string allowed) {
  const ApiError error = wrong_method(method, path, allowed);
  HttpResponse response;
  response.status = error.status;
  response.body = to_json(error);
  response.headers.emplace_back("Allow", std::move(allowed));
  responder.respond(std::move(response));
}

}  // namespace lynx
