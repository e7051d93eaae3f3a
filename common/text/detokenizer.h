// Incremental detokenizing of one sequence: push tokens, get the text that is certain. Bytes of an unfinished
// UTF-8 character are held back until it completes; a sequence that can never become valid comes out as
// U+FFFD at once. The pieces concatenated equal Tokenizer::decode of all tokens. One thread.
#pragma once

#include <string>
#include <string_view>

#include "common/text/tokenizer.h"

namespace lynx {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  std::string push(TokenId id);
  std::string finish();  // what was held back, as U+FFFD

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;
};

// The longest prefix of bytes that ends on a character boundary, with invalid bytes replaced by U+FFFD, moved
// out of bytes; what stays is the start of one unfinished character (at most 3 bytes).
std::string take_valid_utf8(std::string& bytes);

}  // namespace lynx
