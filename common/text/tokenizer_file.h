// Reads a tokenizer.json into what the tokenizer needs. Everything the file says is either understood or
// refused, with the JSON path: silently ignoring a field would change token ids.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/text/added_tokens.h"
#include "common/text/bpe.h"
#include "common/text/split_regex.h"

namespace lynx {

struct SplitStep {
  SplitRegex regex;
  bool invert = false;   // what does not match counts as the match
  bool removed = false;  // matches are dropped instead of isolated
};

struct TokenizerFile {
  std::vector<AddedToken> added;
  bool nfc = false;                        // normalizer
  std::vector<SplitStep> splits;           // pre-tokenizers, one after the other
  std::optional<std::size_t> prefix_step;  // pieces get a leading space before this split (or before merging)
  std::unordered_map<std::string, TokenId> vocabulary;       // token text as the file has it
  std::unordered_map<std::string, TokenId> byte_vocabulary;  // bytes -> id
  std::vector<Merge> merges;
  bool ignore_merges = false;
  std::vector<TokenId> prompt_prefix;  // what the post-processor puts before a prompt
};

// Throws std::runtime_error "name: path: what is wrong".
TokenizerFile read_tokenizer_file(const std::string& json, const std::string& name);

}  // namespace lynx
