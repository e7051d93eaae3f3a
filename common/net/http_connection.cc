#include "common/net/http_connection.h"

#include <exception>

#include "common/core/log.h"

namespace lynx {
namespace {

using http_format::Body;

// How long a refused client may take to read why before the connection goes; closing at once would reset it.
constexpr std::chrono::seconds kLingerTime{1};

// What a client may send ahead of its turn before we stop reading from it.
constexpr std::size_t kMaxEarlyBytes = 64 << 10;

std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<HttpServerCore> core, std::unique_ptr<ByteStream> stream)
    : core_(std::move(core)),
      stream_(std::move(stream)),
      reader_(core_->config.max_header_bytes, core_->config.max_body_bytes),
      deadline_(now() + core_->config.idle_timeout) {}

HttpConnection::~HttpConnection() = default;

void HttpConnection::start() {
  // The stream belongs to this object and calls nobody after it is gone: a plain `this` is safe.
  stream_->start({[this](std::string_view bytes) { on_bytes(bytes); }, [this](const Error&) { drop(); },
                  [this] { return on_half_close(); }});
}

void HttpConnection::refuse() {
  start();
  auto response =
      http_format::error_response(503, "too_many_connections", "The server has no connection left.");
  response.headers.emplace_back("Retry-After", "1");
  send_and_close(response);
}

void HttpConnection::on_bytes(std::string_view bytes) {
  const auto self = shared_from_this();  // a handler may end us
  if (state_ == State::kLingering || doomed_) return;
  if (state_ == State::kResponding || !early_.empty()) {
    early_ += bytes;
    if (state_ != State::kResponding) return parse_buffered();
    if (early_.size() > kMaxEarlyBytes) stream_->pause_reading();
    return;
  }
  early_.assign(bytes.substr(parse(bytes)));
}

// The client sends nothing more. When it waits for an answer it gets it; a client that has closed altogether
// is found out by something small that another ignores.
bool HttpConnection::on_half_close() {
  if (!open()) return false;
  client_done_ = true;
  switch (state_) {
    case State::kReading:
      return false;  // the rest of its request will never come
    case State::kIdle:
      if (stream_->bytes_waiting() == 0) return false;
      linger();
      return true;
    case State::kLingering:
      return stream_->bytes_waiting() > 0;
    case State::kResponding:
      if (streaming_ && !event_stream_) return false;
      probe();
      return true;
  }
  return false;
}

void HttpConnection::probe() {
  if (streaming_) {
    constexpr std::string_view comment = ":\n\n";  // of a stream of events
    if (head_only_) return;
    if (chunked_) {
      http_format::append_chunk(stream_->out(), comment);
    } else {
      stream_->out() += comment;
    }
  } else if (!http_1_0_) {
    stream_->out() +=
        http_format::kProcessing;  // RFC 9110, 15.2: any number of them may come before the answer
  }
  stream_->flush_soon();
}

void HttpConnection::parse_buffered() {
  if (!open() || state_ == State::kResponding || state_ == State::kLingering || early_.empty()) return;
  const std::string bytes = std::exchange(early_, {});
  const std::size_t used = parse(bytes);
  if (open()) early_.insert(0, bytes, used);
  if (open() && client_done_ && (state_ == State::kIdle || state_ == State::kReading)) linger();
}

// Takes request after request for as long as they are answered on the spot. Returns the bytes used.
std::size_t HttpConnection::parse(std::string_view bytes) {
  parsing_ = true;
  std::size_t used = 0;
  while (open() && (state_ == State::kIdle || state_ == State::kReading) && used < bytes.size()) {
    const std::size_t n = read_request(bytes.substr(used));
    if (n == 0) break;
    used += n;
  }
  parsing_ = false;
  return state_ == State::kLingering ? bytes.size() : used;
}

std::size_t HttpConnection::read_request(std::string_view bytes) {
  if (state_ == State::kIdle) {
    // Empty lines before a request are forgiven (RFC 9112, 2.2).
    const std::size_t blank = std::min(bytes.find_first_not_of("\r\n"), bytes.size());
    if (blank > 0) return blank;
    state_ = State::kReading;
    deadline_ = now() + core_->config.read_timeout;
    continued_ = false;
    reader_.reset();
  }
  const std::size_t used = reader_.feed(bytes);
  switch (reader_.state()) {
    case ParseState::kMore:
      if (reader_.expects_continue() && !std::exchange(continued_, true)) {
        stream_->out() += http_format::kContinue;
        stream_->flush_soon();
      }
      break;
    case ParseState::kBad: {
      const HttpFault& fault = reader_.fault();
      send_and_close(http_format::error_response(fault.status, fault.code, fault.message));
      break;
    }
    case ParseState::kDone:
      dispatch();
      break;
  }
  return used;
}

void HttpConnection::dispatch() {
  state_ = State::kResponding;
  keep_alive_ = reader_.keep_alive() && !last_request_;
  http_1_0_ = reader_.http_1_0();
  HttpRequest request = reader_.take();
  head_only_ = request.method == "HEAD";
  if (head_only_) request.method = "GET";  // same answer, without the body
  cors_ = cors_headers(core_->config.cors, request);
  if (is_allowed_preflight(core_->config.cors, request)) return respond(preflight_response(request));
  const auto responder = std::make_shared<Responder>(core_->loop, weak_from_this());
  responder_ = responder;
  const auto core = core_;  // the handler may end the server
  try {
    core->handler(std::move(request), responder);
  } catch (const std::exception& e) {
    log::error("a request handler failed: {}", e.what());
    responder->respond(
        http_format::error_response(500, "internal_error", "The server failed on this request."));
  }
}

http_format::Head HttpConnection::head_of(int status, std::string_view content_type) const {
  return {status, content_type, Body::kLength, 0, http_1_0_, keep_alive_};
}

HttpHeaders HttpConnection::with_cors(const HttpHeaders& headers) const {
  HttpHeaders out = headers;
  out.insert(out.end(), cors_.begin(), cors_.end());
  return out;
}

void HttpConnection::respond(const HttpResponse& response) {
  auto head = head_of(response.status, response.content_type);
  head.length = response.body.size();
  http_format::append_head(stream_->out(), head, with_cors(response.headers));
  if (!head_only_ && http_format::has_body(response.status)) stream_->out() += response.body;
  finish_response();
}

void HttpConnection::begin_stream(int status, std::string_view content_type) {
  static const std::vector<std::pair<std::string, std::string>> kEventStreamHeaders{
      {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};  // proxies must not gather events
  chunked_ = !http_1_0_;
  if (http_1_0_) keep_alive_ = false;
  auto head = head_of(status, content_type);
  head.body = chunked_ ? Body::kChunked : Body::kUntilClose;
  streaming_ = true;
  event_stream_ = content_type == "text/event-stream";
  http_format::append_head(stream_->out(), head,
                           with_cors(event_stream_ ? kEventStreamHeaders : HttpHeaders{}));
  stream_->flush_soon();
}

void HttpConnection::write_chunk(std::string_view chunk) {
  if (head_only_) return;
  if (stream_->bytes_waiting() > core_->config.max_write_buffer_bytes) {
    stream_->flush_now();
    if (stream_->bytes_waiting() > core_->config.max_write_buffer_bytes) return drop_soon();
  }
  if (chunked_) {
    http_format::append_chunk(stream_->out(), chunk);
  } else {
    stream_->out() += chunk;
  }
  stream_->flush_soon();
}

void HttpConnection::finish_stream() {
  if (chunked_ && !head_only_) stream_->out() += http_format::kLastChunk;
  finish_response();
}

void HttpConnection::give_up(bool streaming) {
  if (streaming) return drop_soon();  // without its last chunk the client sees that it was cut
  respond(http_format::error_response(500, "internal_error", "The server gave up on this request."));
}

void HttpConnection::finish_response() {
  responder_.reset();
  streaming_ = false;
  stream_->flush_soon();
  if (!keep_alive_ || (client_done_ && early_.empty() && !parsing_)) return linger();
  state_ = State::kIdle;
  deadline_ = now() + core_->config.idle_timeout;
  if (parsing_ || early_.empty()) return;
  stream_->resume_reading();
  core_->loop.post([self = shared_from_this()] { self->parse_buffered(); });
}

void HttpConnection::send_and_close(const HttpResponse& response) {
  keep_alive_ = false;
  respond(response);
}

void HttpConnection::linger() {
  state_ = State::kLingering;
  deadline_ = now() + kLingerTime;
  early_.clear();
  stream_->finish_writing();
  stream_->resume_reading();  // to see the client's end of it
}

void HttpConnection::check_deadlines(TimePoint at) {
  if (!open()) return;
  const auto blocked = stream_->blocked_since();
  if (blocked && at - *blocked > core_->config.write_timeout) return drop();
  if (state_ == State::kLingering && stream_->bytes_waiting() > 0) return;  // the write timeout rules
  if (state_ == State::kResponding || at < deadline_) return;
  if (state_ != State::kReading) return drop();
  send_and_close(http_format::error_response(408, "request_timeout", "The request did not arrive in time."));
}

void HttpConnection::close_when_idle() {
  last_request_ = true;
  keep_alive_ = false;
  if (state_ == State::kIdle) drop();
}

void HttpConnection::abandon() { stream_.reset(); }

void HttpConnection::drop_soon() {
  doomed_ = true;
  core_->loop.post([self = shared_from_this()] { self->drop(); });
}

void HttpConnection::drop() {
  if (stream_ == nullptr) return;
  const auto self = shared_from_this();
  stream_.reset();
  core_->on_closed(*this);
  if (const auto responder = responder_.lock()) responder->client_gone();
}

}  // namespace lynx
