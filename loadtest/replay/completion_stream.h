// Follows one streamed completion (server-sent events of the OpenAI API) and notes when each piece arrives.
// Pure: bytes and times are handed in. Anything may come over the wire; what is malformed ends as a failure
// of this request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/core/clock.h"
#include "common/net/http_client.h"
#include "loadtest/replay/outcome.h"

namespace lynx {

class CompletionStream {
 public:
  explicit CompletionStream(Clock::time_point sent) : sent_(sent) {}

  void on_bytes(std::string_view bytes, Clock::time_point now);

  // The transfer has ended, well or not. Fills times, token counts and failure.
  void finish(const Result<HttpReply>& reply, Clock::time_point now, Outcome& out) const;

  // Pieces of text so far, when the first came, and the gaps between them: for the live view.
  std::uint32_t pieces() const { return pieces_; }
  const std::optional<Clock::time_point>& first() const { return first_; }
  const std::vector<Clock::duration>& itl() const { return itl_; }

 private:
  void on_event(std::string_view data, Clock::time_point now);
  void on_piece(Clock::time_point now);
  void set_failure(const Result<HttpReply>& reply, Outcome& out) const;

  Clock::time_point sent_;
  SseParser parser_;
  std::string head_;  // the first bytes of the body: a refusal is no event stream
  std::optional<Clock::time_point> first_, last_;
  std::vector<Clock::duration> itl_;
  std::uint32_t pieces_ = 0;
  std::optional<std::uint32_t> prompt_tokens_, completion_tokens_;
  bool finished_ = false;  // a finish_reason or [DONE] has come
  std::string stream_error_, bad_event_;
};

}  // namespace lynx
