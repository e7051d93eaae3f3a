#pragma once

#include <string>

#include "common/net/http_server.h"
#include "services/router/api_error.h"

namespace lynx {

void respond_json(HttpResponder& responder, int status, std::string body);
void respond_error(HttpResponder& responder, const ApiError& error);  // with Retry-After when it has one

}  // namespace lynx
