// Byte-pair merging of one piece of text: the lowest-ranked pair first, the leftmost of equals, until none is
// left. Immutable after construction; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/text/token.h"

namespace lynx {

struct Merge {
  TokenId left = 0, right = 0, merged = 0;
};

class Bpe {
 public:
  // vocabulary: bytes of each token -> id. merges: in order of rank.
  Bpe(std::unordered_map<std::string, TokenId> vocabulary, const std::vector<Merge>& merges,
      bool ignore_merges);

  // Appends the tokens of piece. Bytes that no token stands for are skipped, as the reference does without an
  // unk_token.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  struct Target {
    std::uint32_t rank;
    TokenId merged;
  };
  struct Symbol;

  const Target* target(TokenId left, TokenId right) const;
  std::vector<Symbol> symbols_of(std::string_view piece) const;

  std::unordered_map<std::string, TokenId> vocabulary_;
  std::unordered_map<std::uint64_t, Target> targets_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  bool ignore_merges_;
};

}  // namespace lynx
