#include "loadtest/replay/completion_stream.h"

#include <nlohmann/json.hpp>

namespace lynx {
namespace {

using nlohmann::json;

constexpr std::size_t kHeadBytes = 2048;
constexpr std::size_t kDetailBytes = 300;

json parse(std::string_view text) { return json::parse(text, nullptr, /*allow_exceptions=*/false); }

// error.message of OpenAI's error shape, else the text itself.
std::string message_of(const json& body, std::string_view text) {
  if (body.is_object() && body.contains("error")) {
    const json& error = body["error"];
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return error["message"].get<std::string>().substr(0, kDetailBytes);
  }
  return std::string(text.substr(0, kDetailBytes));
}

std::optional<std::uint32_t> count_at(const json& usage, const char* key) {
  const auto at = usage.find(key);
  if (at == usage.end() || !at->is_number_unsigned() || *at > 1'000'000'000U) return std::nullopt;
  return at->get<std::uint32_t>();
}

// One word per kind, so that failures can be counted.
std::string cause_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kDeadlineExceeded:
      return "timeout";
    case ErrorCode::kUnavailable:
      return "connection";
    case ErrorCode::kCorrupt:
      return "malformed_reply";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kBusy:
    case ErrorCode::kIncompatible:
    case ErrorCode::kPermission:
    case ErrorCode::kInternal:
      return std::string(to_string(code));
  }
  return "unknown";
}

bool has_text(const json& choice) {
  const auto text = choice.find("text");
  return text != choice.end() && text->is_string() && !text->get_ref<const std::string&>().empty();
}

}  // namespace

void CompletionStream::on_bytes(std::string_view bytes, Clock::time_point now) {
  head_.append(bytes.substr(0, kHeadBytes - std::min(kHeadBytes, head_.size())));
  parser_.feed(bytes, [&](std::string_view data) { on_event(data, now); });
}

void CompletionStream::on_event(std::string_view data, Clock::time_point now) {
  if (data == "[DONE]") {
    finished_ = true;
    return;
  }
  const json event = parse(data);
  if (!event.is_object()) {
    if (bad_event_.empty()) bad_event_ = std::string(data.substr(0, kDetailBytes));
    return;
  }
  if (event.contains("error")) stream_error_ = message_of(event, data);
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    prompt_tokens_ = count_at(*usage, "prompt_tokens");
    completion_tokens_ = count_at(*usage, "completion_tokens");
  }
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array() || choices->empty() || !choices->front().is_object())
    return;
  const json& choice = choices->front();
  const auto reason = choice.find("finish_reason");
  const bool ends = reason != choice.end() && reason->is_string();
  finished_ = finished_ || ends;
  // A first token that shows no text yet (half a character, or the end at once) is still the first token.
  if (has_text(choice) || !first_) on_piece(now);
}

void CompletionStream::on_piece(Clock::time_point now) {
  ++pieces_;
  if (last_) itl_.push_back(now - *last_);
  if (!first_) first_ = now;
  last_ = now;
}

void CompletionStream::finish(const Result<HttpReply>& reply, Clock::time_point now, Outcome& out) const {
  out.e2e = now - sent_;
  out.ttft = first_ ? *first_ - sent_ : Clock::duration(0);
  out.itl = itl_;
  out.input_tokens = prompt_tokens_.value_or(out.input_tokens);
  out.output_tokens = completion_tokens_.value_or(pieces_);
  set_failure(reply, out);
}

void CompletionStream::set_failure(const Result<HttpReply>& reply, Outcome& out) const {
  const auto fail = [&](std::string cause, std::string detail) {
    out.failure = std::move(cause);
    out.detail = std::move(detail);
  };
  if (!reply) return fail(cause_of(reply.error().code), reply.error().message);
  if (reply->status != 200) {
    const std::string& body = head_.empty() ? reply->body : head_;
    return fail("http_" + std::to_string(reply->status), message_of(parse(body), body));
  }
  if (!stream_error_.empty()) return fail("stream_error", stream_error_);
  if (!bad_event_.empty()) return fail("malformed_reply", "an event is no JSON object: " + bad_event_);
  if (!first_)
    return fail("empty_stream", "the stream ended without a token: " + head_.substr(0, kDetailBytes));
  if (!finished_) return fail("cut_stream", "the stream ended without a finish_reason or [DONE]");
}

}  // namespace lynx
