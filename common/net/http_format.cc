#include "common/net/http_format.h"

#include <array>
#include <charconv>

namespace lynx::http_format {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

void append_number(std::string& out, std::size_t value, int base = 10) {
  std::array<char, 24> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value, base);
  out.append(digits.data(), result.ptr);
}

// A line end inside a value would start a header (or a body) of the attacker's choice.
void append_on_one_line(std::string& out, std::string_view text) {
  for (const char c : text) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  append_on_one_line(out, name);
  out += ": ";
  append_on_one_line(out, value);
  out += "\r\n";
}

void append_framing(std::string& out, const Head& head) {
  switch (head.body) {
    case Body::kLength:
      if (!has_body(head.status)) return;
      out += "Content-Length: ";
      append_number(out, head.length);
      out += "\r\n";
      return;
    case Body::kChunked:
      out += "Transfer-Encoding: chunked\r\n";
      return;
    case Body::kUntilClose:
      return;
  }
}

}  // namespace

void append_head(std::string& out, const Head& head,
                 const std::vector<std::pair<std::string, std::string>>& headers) {
  out += head.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  append_number(out, static_cast<std::size_t>(head.status));
  ((out += ' ') += reason(head.status)) += "\r\n";
  if (!head.content_type.empty()) append_header(out, "Content-Type", head.content_type);
  append_framing(out, head);
  if (!head.keep_alive) out += "Connection: close\r\n";
  if (head.keep_alive && head.http_1_0) out += "Connection: keep-alive\r\n";
  for (const auto& [name, value] : headers) append_header(out, name, value);
  out += "\r\n";
}

void append_chunk(std::string& out, std::string_view chunk) {
  append_number(out, chunk.size(), 16);
  ((out += "\r\n") += chunk) += "\r\n";
}

bool has_body(int status) { return status >= 200 && status != 204 && status != 304; }

HttpResponse error_response(int status, std::string_view code, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body = R"({"error":{"message":")";
  response.body += message;
  response.body += status >= 500 ? R"(","type":"server_error","param":null,"code":")"
                                 : R"(","type":"invalid_request_error","param":null,"code":")";
  (response.body += code) += "\"}}";
  return response;
}

}  // namespace lynx::http_format
