// Incremental HTTP/1.x parsing over Beast: bytes in, one message out, limits enforced on the way. The only
// file of the folder that compiles Beast. Internal to common/net.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/http_client.h"
#include "common/net/http_server.h"

namespace lynx {

// Why a request is refused, in the terms of the response.
struct HttpFault {
  int status = 400;
  std::string code;
  std::string message;
};

enum class ParseState { kMore, kDone, kBad };

class HttpRequestReader {
 public:
  // max_header_bytes: of the header with its request line; also of a chunk's line, and of the trailers.
  HttpRequestReader(std::size_t max_header_bytes, std::size_t max_body_bytes);
  ~HttpRequestReader();

  void reset();  // ready for the next request
  // Bytes used; offer the rest, less than max_header_bytes, again, with more behind it.
  std::size_t feed(std::string_view bytes);
  ParseState state() const;

  const HttpFault& fault() const;  // with kBad
  // The header is in and asks for `100 Continue` before the body.
  bool expects_continue() const;

  // With kDone (keep_alive and http_1_0 as soon as the header is in).
  HttpRequest take();
  bool keep_alive() const;
  bool http_1_0() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class HttpReplyReader {
 public:
  // A reply to HEAD has no body. on_body: takes the body piece by piece; null collects it in the reply.
  HttpReplyReader(bool head, std::function<void(std::string_view)> on_body);
  ~HttpReplyReader();

  std::size_t feed(std::string_view bytes);
  void end_of_stream();  // some replies end with the connection
  ParseState state() const;
  const std::string& problem() const;  // with kBad

  // With kDone:
  bool interim() const;  // a 1xx: the reply itself follows
  bool keep_alive() const;
  HttpReply take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx
