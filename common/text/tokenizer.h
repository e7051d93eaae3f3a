// Byte-level BPE tokenizer from a Hugging Face tokenizer.json. Equal, token for token, to the `tokenizers`
// package for the features it accepts; anything else in the file is refused at load with the JSON path of
// what is not supported. Immutable after load: every const method may be called from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/token.h"

namespace lynx {

class Tokenizer {
 public:
  // Throws std::runtime_error "file: path.in.json: what is wrong".
  static Tokenizer from_file(const std::string& path);
  static Tokenizer from_json(const std::string& text, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // text may be any bytes; broken UTF-8 becomes U+FFFD as in the reference. Added tokens in the text are
  // recognised when allow_special; otherwise their text is tokenized as plain text (user content cannot forge
  // a turn).
  std::vector<TokenId> encode(std::string_view text, bool allow_special = true) const;

  // What the file's post-processor puts before a plain prompt: BOS in some models, nothing in most. encode
  // leaves it out, because chat templates write it themselves.
  std::span<const TokenId> prompt_prefix() const;

  // The exact bytes of one token: byte-level tokens decoded, added tokens verbatim. Empty for an unknown id.
  std::string_view bytes(TokenId id) const;
  bool is_special(TokenId id) const;
  std::string decode(std::span<const TokenId> ids,
                     bool skip_special = true) const;  // lossy UTF-8 repair as the reference

  std::optional<TokenId> id_of(
      std::string_view token) const;  // by its text in the vocabulary, added tokens included
  std::size_t vocab_size() const;     // highest id + 1

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx
