// The bytes of HTTP/1.x responses. Internal to common/net.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/net/http_server.h"

namespace lynx::http_format {

enum class Body { kLength, kChunked, kUntilClose };

struct Head {
  int status = 200;
  std::string_view content_type;
  Body body = Body::kLength;
  std::size_t length = 0;  // with kLength
  bool http_1_0 = false;
  bool keep_alive = true;
};

// Status line and headers, the empty line included. Extra headers that would break the framing lose their
// line ends.
void append_head(std::string& out, const Head& head,
                 const std::vector<std::pair<std::string, std::string>>& headers = {});

void append_chunk(std::string& out, std::string_view chunk);  // not empty: an empty chunk ends the body
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kProcessing = "HTTP/1.1 102 Processing\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool has_body(int status);

// {"error":{"message":...,"type":...,"param":null,"code":...}}, as OpenAI's clients expect it. message and
// code are plain text of ours.
HttpResponse error_response(int status, std::string_view code, std::string_view message);

}  // namespace lynx::http_format
