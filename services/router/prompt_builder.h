// From a checked request to the tokens of its prompts. Text of a chat message never becomes a control token:
// a user who writes the end-of-turn token gets its letters, not a turn (prompts of /v1/completions are raw
// and may hold them). Immutable after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "services/router/openai_api.h"

namespace lynx {

class PromptBuilder {
 public:
  // chat: absent when the model has no template; chat requests are then refused. The tokenizer outlives this.
  PromptBuilder(const Tokenizer& tokenizer, std::optional<ChatTemplate> chat);

  // Tokens of each prompt, in order. What the tokenizer puts before a text (BOS, in some models) stands
  // before a text prompt; a prompt of tokens is taken as it is, and a chat template writes its own. A prompt
  // that cannot fit into context is refused before it is tokenized.
  std::optional<ApiError> build(const ApiRequest& request, std::uint64_t context,
                                std::vector<std::vector<TokenId>>& out) const;

 private:
  std::optional<ApiError> build_chat(const ApiRequest& request, std::uint64_t context,
                                     std::vector<TokenId>& out) const;
  std::optional<ApiError> encode_text(const std::string& text, std::uint64_t context,
                                      const std::string& field, std::vector<TokenId>& out) const;
  std::vector<TokenId> encode_guarded(const std::string& rendered) const;
  std::string guard(std::string content, bool& guarded) const;
  const std::pair<std::string, TokenId>* control_at(const std::string& text, std::size_t at) const;

  const Tokenizer& tokenizer_;
  std::optional<ChatTemplate> chat_;
  std::vector<std::pair<std::string, TokenId>> control_tokens_;  // the longest first
  std::array<bool, 256> starts_control_{};                       // by first byte
  std::size_t longest_token_ = 1;                                // bytes
};

}  // namespace lynx
