// The text of one sequence as it grows: whole characters only, cut at the first stop string. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "services/router/sequence_spec.h"

namespace lynx {

class SequenceText {
 public:
  // Stop strings count only in text after the first min_tokens tokens.
  SequenceText(const Tokenizer& tokenizer, const std::vector<std::string>& stops, std::uint32_t min_tokens);

  struct Out {
    std::string text;      // safe to send
    bool stopped = false;  // a stop string ended the text
  };
  // The token that ends the sequence by kStop (end of sequence) has no text of its own.
  Out push(const GeneratedToken& token);

 private:
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool matches_;
  std::uint32_t min_tokens_;
};

}  // namespace lynx
