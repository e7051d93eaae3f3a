// The bodies that go back: chunks of a stream and whole replies, for completions and chat. Chunks are written
// straight into a buffer, since one leaves per token. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/router/openai_api.h"
#include "services/router/receipt.h"

namespace lynx {

struct ReplyHead {
  ApiKind kind = ApiKind::kCompletion;
  std::string id;
  std::string model;
  std::uint64_t created = 0;  // Unix seconds
};

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::optional<Receipt> receipt{};  // usage.lynx, where the request asked for it
};

// finish: empty = goes on. logprobs: a JSON object, or empty for null.
struct ReplyPiece {
  std::uint32_t choice = 0;
  std::string_view text;
  std::string_view finish;
  std::string_view logprobs;
};

// Server-sent events of one reply. Every event is appended to out.
class StreamReply {
 public:
  StreamReply(const ReplyHead& head, bool usage_follows);

  void role(std::string& out, std::uint32_t choice) const;  // chat: opens a choice
  void piece(std::string& out, const ReplyPiece& piece) const;
  void usage(std::string& out, const Usage& usage) const;
  static void error(std::string& out, const ApiError& error);
  static void done(std::string& out);

 private:
  ApiKind kind_;
  std::string common_;  // "data: {...," up to the choices
  std::string chunk_;   // common_ with what stands before a choice's index
};

std::string whole_reply(const ReplyHead& head, const std::vector<ReplyPiece>& choices, const Usage& usage);

}  // namespace lynx
