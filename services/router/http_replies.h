#pragma once

#include <string>
#include <string_view>

#include "common/net/http_server.h"
#include "services/router/api_error.h"

namespace lynx {

void respond_json(HttpResponder& responder, int status, std::string body);
// With Retry-After when it has one.
void respond_error(HttpResponder& responder, const ApiError& error);
void respond_wrong_method(HttpResponder& responder, std::string_view method, std::string_view path,
                          std::string allowed);

}  // namespace lynx
