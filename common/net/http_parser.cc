#include "common/net/http_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>

namespace lynx {
namespace {

namespace http = boost::beast::http;
using boost::beast::iequals;
using boost::beast::string_view;
using boost::system::error_code;
using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kLastChunk = 5;              // 0, two ends of line: no chunk is shorter
constexpr std::size_t kTrustedReserve = 64 << 10;  // a Content-Length is a claim, not bytes
constexpr std::uint64_t kMaxReplyBytes = 1 << 30;
constexpr std::size_t kMaxReplyHeaderBytes = 1 << 20;

std::string lower_case(string_view text) {
  std::string out(text.data(), text.size());
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return out;
}

// What both directions share. Fields after the header are trailers of a chunked body: dropped, so that none
// of them can pass for a header.
//
// Beast's limit for headers is on what one call is offered, not on what came before: lines that arrive one by
// one never meet it, and a chunk's line and the trailers have none. So the limit is kept here: for the whole
// header, and for each of those, however the bytes are cut. And Beast asserts that a chunk of which it has
// seen a part comes with kLastChunk bytes.
template <bool kRequest>
class MessageParser : public http::basic_parser<kRequest> {
 public:
  explicit MessageParser(std::size_t max_header_bytes) : max_header_bytes_(max_header_bytes) {
    this->eager(true);
    this->header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(max_header_bytes, UINT32_MAX)));
  }
  Headers headers;
  std::string body;

  std::size_t feed(std::string_view bytes, error_code& error) {
    std::size_t used = 0;
    while (used < bytes.size() && !this->is_done()) {
      const std::size_t room = max_header_bytes_ - header_bytes_;
      const std::size_t offered = std::min(room, bytes.size() - used);
      if (chunk_begun_ && offered < kLastChunk) break;
      const std::size_t n = this->put(boost::asio::const_buffer(bytes.data() + used, offered), error);
      used += n;
      chunk_begun_ = header_in_ && error == http::error::need_more;
      if (error == http::error::need_more) error = {};
      if (!error && offered == room && (n == 0 || !header_in_)) error = http::error::header_limit;
      if (error || n == 0) break;
      header_bytes_ = header_in_ ? 0 : header_bytes_ + n;
    }
    return used;
  }

 protected:
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    if (!header_in_) headers.emplace_back(lower_case(name), std::string(value.data(), value.size()));
  }
  void on_header_impl(error_code&) override { header_in_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    if (length) body.reserve(std::min<std::uint64_t>(*length, kTrustedReserve));
  }
  std::size_t on_body_impl(string_view piece, error_code&) override {
    on_piece({piece.data(), piece.size()});
    return piece.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view piece, error_code&) override {
    on_piece({piece.data(), piece.size()});
    return piece.size();
  }
  void on_finish_impl(error_code&) override {}
  virtual void on_piece(std::string_view piece) { body += piece; }

 private:
  std::size_t max_header_bytes_;
  std::size_t header_bytes_ = 0;  // used of a header that is not all in
  bool header_in_ = false;
  bool chunk_begun_ = false;
};

class RequestParser final : public MessageParser<true> {
 public:
  RequestParser(std::size_t max_header_bytes, std::size_t max_body_bytes) : MessageParser(max_header_bytes) {
    body_limit(max_body_bytes);
  }
  std::string method;
  std::string target;
  bool http_1_0 = false;
  bool expects_continue = false;
  bool foreign_encoding = false;

 private:
  void on_request_impl(http::verb, string_view verb, string_view uri, int version, error_code&) override {
    method.assign(verb.data(), verb.size());
    target.assign(uri.data(), uri.size());
    http_1_0 = version < 11;
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field name, string_view text, string_view value, error_code& error) override {
    if (name == http::field::expect && iequals(value, "100-continue")) expects_continue = true;
    if (name == http::field::transfer_encoding && !iequals(value, "chunked")) {
      foreign_encoding = true;
      error = http::error::bad_transfer_encoding;
      return;
    }
    MessageParser::on_field_impl(name, text, value, error);
  }
};

HttpFault fault_of(const error_code& error, bool foreign_encoding) {
  if (error == http::error::header_limit)
    return {431, "headers_too_large", "The request's headers are too large."};
  if (error == http::error::body_limit) return {413, "body_too_large", "The request's body is too large."};
  if (foreign_encoding)
    return {501, "unsupported_encoding", "The only transfer encoding understood here is chunked."};
  return {400, "malformed_request", "Malformed HTTP request: " + error.message() + "."};
}

// The path of a target in origin form (/path) or absolute form (http://host/path).
std::string_view origin_form(std::string_view target) {
  const std::size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return target;
  const std::size_t path = target.find('/', scheme + 3);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

}  // namespace

struct HttpRequestReader::Impl {
  std::size_t max_header_bytes;
  std::size_t max_body_bytes;
  std::unique_ptr<RequestParser> parser;  // one per request: Beast's cannot start over
  HttpFault fault;
  bool bad = false;
};

HttpRequestReader::HttpRequestReader(std::size_t max_header_bytes, std::size_t max_body_bytes)
    : impl_(std::make_unique<Impl>(Impl{max_header_bytes, max_body_bytes, nullptr, {}, false})) {
  reset();
}

HttpRequestReader::~HttpRequestReader() = default;

void HttpRequestReader::reset() {
  impl_->parser = std::make_unique<RequestParser>(impl_->max_header_bytes, impl_->max_body_bytes);
  impl_->bad = false;
}

std::size_t HttpRequestReader::feed(std::string_view bytes) {
  if (impl_->bad) return 0;
  error_code error;
  const std::size_t used = impl_->parser->feed(bytes, error);
  if (error) {
    impl_->fault = fault_of(error, impl_->parser->foreign_encoding);
    impl_->bad = true;
  }
  return used;
}

ParseState HttpRequestReader::state() const {
  if (impl_->bad) return ParseState::kBad;
  return impl_->parser->is_done() ? ParseState::kDone : ParseState::kMore;
}

const HttpFault& HttpRequestReader::fault() const { return impl_->fault; }

bool HttpRequestReader::expects_continue() const {
  return impl_->parser->is_header_done() && impl_->parser->expects_continue && !impl_->parser->http_1_0;
}

HttpRequest HttpRequestReader::take() {
  const std::string_view target = origin_form(impl_->parser->target);
  const std::size_t question = std::min(target.find('?'), target.size());
  HttpRequest request;
  request.method = std::move(impl_->parser->method);
  request.path = target.substr(0, question);
  request.query = target.substr(std::min(question + 1, target.size()));
  request.headers = std::move(impl_->parser->headers);
  request.body = std::move(impl_->parser->body);
  return request;
}

bool HttpRequestReader::keep_alive() const {
  return impl_->parser->is_header_done() && impl_->parser->keep_alive();
}
bool HttpRequestReader::http_1_0() const { return impl_->parser->http_1_0; }

struct HttpReplyReader::Impl final : MessageParser<false> {
  Impl(bool head, std::function<void(std::string_view)> take_body)
      : MessageParser(kMaxReplyHeaderBytes), on_body(std::move(take_body)) {
    skip(head);
    body_limit(kMaxReplyBytes);
  }
  std::function<void(std::string_view)> on_body;
  int status = 0;
  error_code error;
  std::string problem;

 private:
  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_response_impl(int code, string_view, int, error_code&) override { status = code; }
  void on_piece(std::string_view piece) override {
    if (on_body) return on_body(piece);
    body += piece;
  }
};

HttpReplyReader::HttpReplyReader(bool head, std::function<void(std::string_view)> on_body)
    : impl_(std::make_unique<Impl>(head, std::move(on_body))) {}

HttpReplyReader::~HttpReplyReader() = default;

std::size_t HttpReplyReader::feed(std::string_view bytes) {
  if (impl_->error) return 0;
  const std::size_t used = impl_->feed(bytes, impl_->error);
  if (impl_->error) impl_->problem = impl_->error.message();
  return used;
}

void HttpReplyReader::end_of_stream() {
  if (impl_->error || impl_->is_done()) return;
  if (!impl_->got_some()) impl_->error = http::error::end_of_stream;  // which Beast asserts against
  if (!impl_->error) impl_->put_eof(impl_->error);
  if (impl_->error) impl_->problem = impl_->error.message();
}

ParseState HttpReplyReader::state() const {
  if (impl_->error) return ParseState::kBad;
  return impl_->is_done() ? ParseState::kDone : ParseState::kMore;
}

const std::string& HttpReplyReader::problem() const { return impl_->problem; }

HttpReply HttpReplyReader::take() {
  return {impl_->status, std::move(impl_->headers), std::move(impl_->body)};
}

bool HttpReplyReader::interim() const { return impl_->status < 200 && impl_->status != 101; }
bool HttpReplyReader::keep_alive() const { return impl_->keep_alive(); }

}  // namespace lynx
