// Added tokens (special ones among them) found in text before the pre-tokenizer and the merges see it:
// leftmost, then longest. Immutable after construction; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/token.h"

namespace lynx {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool single_word = false;  // only where no letter or digit touches it
  bool normalized = false;   // looked for in the normalized text, not in the raw text
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin = 0, end = 0;     // in text, stripped white space included
    const AddedToken* token = nullptr;  // null: nothing was found
  };
  // The first match at or after from; special tokens count only when allow_special.
  Match find(std::string_view text, std::size_t from, bool allow_special) const;

  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  const AddedToken* longest_at(std::string_view text, bool allow_special) const;

  std::vector<AddedToken> tokens_;
  std::array<std::vector<std::size_t>, 256> by_first_byte_;  // longest first
};

}  // namespace lynx
