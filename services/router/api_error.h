// A failure as a client of the API sees it: status, and a body of OpenAI's error shape that names the field
// at fault.
#pragma once

#include <string>
#include <string_view>

namespace lynx {

struct ApiError {
  int status = 500;
  std::string type;  // invalid_request_error, rate_limit_error, server_error, ...
  std::string message;
  std::string param;      // the field at fault; empty = none (null in the body)
  std::string code;       // a word for programs; empty = none (null in the body)
  int retry_after_s = 0;  // > 0: goes out as Retry-After
};

ApiError bad_field(std::string param, std::string message);
ApiError model_not_found(const std::string& asked, const std::string& served);
ApiError wrong_api_key();
ApiError not_found(std::string_view method, std::string_view path);
ApiError wrong_method(std::string_view method, std::string_view path, std::string_view allowed);
ApiError page_is_off();  // the live page and what it shows
ApiError overloaded(std::string message, int retry_after_s);
ApiError no_workers(std::string message);
ApiError draining(std::string message);
ApiError workers_failed(std::string message);
ApiError deadline_exceeded(std::string message);
ApiError internal_error(std::string message);

// {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string to_json(const ApiError& error);

}  // namespace lynx
