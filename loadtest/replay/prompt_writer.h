// Writes prompts of real text with an asked number of tokens. Sentences of a text are drawn at random
// (seeded) and strung together; each word's tokens are counted once, at construction, so writing costs no
// tokenization.
//
// A byte-level tokenizer splits before the blank in front of a word, so the tokens of a prompt are the sum of
// its words'. Requests with the same hash ids get the same text for these blocks. With several topics each
// request is of one of them: by its first hash id, so that this holds for all that begin with the same block,
// or by its seed where it has none. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "loadtest/replay/topics.h"
#include "loadtest/replay/workload.h"

namespace lynx {

class PromptWriter {
 public:
  using CountTokens = std::function<std::size_t(std::string_view)>;

  // Throws std::runtime_error when the text holds no sentence, or no word of a single token.
  PromptWriter(std::string_view text, const CountTokens& count_tokens);

  // The prompts of a topic begin with the same `shared` tokens, as behind one system prompt, and go on with
  // its texts in an order of their own. Throws like the above, naming the topic.
  PromptWriter(const Topics& topics, std::uint32_t shared, const CountTokens& count_tokens);

  // A prompt of exactly request.input_tokens tokens.
  std::string write(const PlannedRequest& request, std::uint32_t block_tokens) const;

 private:
  struct Word {
    std::string text;  // with the blank before it
    std::uint32_t tokens = 0;
  };

  using Sentence = std::vector<Word>;
  struct Topic {
    std::vector<Sentence> sentences{};
    std::vector<std::string> fillers{};  // words of one token, which fill the last places

    void append(std::string& out, std::uint64_t seed, std::uint32_t tokens) const;
    void fill(std::string& out, std::uint64_t seed, std::uint32_t tokens) const;
  };
  class Reader;  // of a text, at construction

  std::vector<Topic> topics_;
  std::uint32_t shared_ = 0;
};

}  // namespace lynx
