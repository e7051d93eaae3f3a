// The bodies of /v1/completions and /v1/chat/completions, checked and typed. Every field is looked at: an
// unknown one, a wrong type or a value out of range is a 400 that names it. A field that is null counts as
// absent.
//
// Accepted and ignored, because they change nothing here: user, metadata, store, service_tier,
// parallel_tool_calls. Accepted only with the value that asks for nothing: echo, suffix, best_of
// (completions); tools, tool_choice, functions, response_format, modalities (chat).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "services/router/api_error.h"
#include "services/router/sequence_spec.h"

namespace lynx {

enum class ApiKind : std::uint8_t { kCompletion, kChat };

struct ChatMessage {
  std::string role;
  std::string content;
  std::string name;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct ApiRequest {
  ApiKind kind = ApiKind::kCompletion;
  std::string model;                            // empty = the one served
  std::vector<Prompt> prompts;                  // completions
  std::vector<ChatMessage> messages;            // chat
  SamplingSettings sampling;                    // max_tokens 0 = not given
  std::string max_tokens_field = "max_tokens";  // the name the client used
  bool seed_given = false;
  std::uint32_t n = 1;  // choices per prompt
  std::vector<std::string> stop;
  std::vector<TokenId> stop_tokens;
  bool keep_stop = false;    // what stopped a text is part of it
  bool skip_special = true;  // control tokens have no text
  bool stream = false;
  bool include_usage = false;
  std::string slo_class;   // empty = the default
  std::string cache_salt;  // empty = none
};

struct ApiLimits {
  std::uint32_t max_choices = 16;  // prompts x n
  std::uint32_t max_stops = 16;
  std::size_t vocab = 0;  // token ids are below this
};

// The error of the first field that is wrong, or nothing; out is then whole.
std::optional<ApiError> parse_api_request(ApiKind kind, std::string_view body, const ApiLimits& limits,
                                          ApiRequest& out);

}  // namespace lynx
