// Log-probabilities of one sequence in the two shapes of the OpenAI API, written as text while tokens come.
// One thread.
#pragma once

#include <cstddef>
#include <string>

#include "common/text/tokenizer.h"
#include "services/router/openai_api.h"

namespace lynx {

class LogprobText {
 public:
  // top: how many alternatives were asked for.
  LogprobText(ApiKind kind, const Tokenizer& tokenizer, std::size_t top)
      : kind_(kind), tokenizer_(tokenizer), top_(top) {}

  void push(const GeneratedToken& token);
  // The object for the tokens pushed since the last call:
  //   chat: {"content":[...]}; completions:
  //   {"tokens":[...],"token_logprobs":[...],"top_logprobs":[...],"text_offset":[...]}
  std::string take();

 private:
  void push_chat(const GeneratedToken& token);
  void push_completion(const GeneratedToken& token);
  void append_chat_entry(std::string& out, TokenId id, float logprob) const;

  ApiKind kind_;
  const Tokenizer& tokenizer_;
  std::size_t top_;
  std::size_t offset_ = 0;                          // characters of text before the next token
  std::string entries_;                             // chat
  std::string tokens_, logprobs_, tops_, offsets_;  // completions
};

}  // namespace lynx
