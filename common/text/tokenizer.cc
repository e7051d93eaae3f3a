#include "common/text/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <utility>

#include "common/core/read_file.h"
#include "common/text/byte_level.h"
#include "common/text/tokenizer_file.h"
#include "common/text/utf8.h"

namespace lynx {
namespace {

std::string to_nfc(const std::string& text) {
  if (std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; })) return text;
  utf8proc_uint8_t* composed = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &composed, options);
  if (length < 0) return text;  // out of memory alone: the text is valid
  std::string out(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(length));
  std::free(composed);
  return out;
}

struct Entry {
  std::string bytes;
  bool special = false;
};

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerFile file)
      : nfc(file.nfc),
        added_raw(pick(file.added, false)),
        added_normalized(pick(file.added, true)),
        splits(std::move(file.splits)),
        prefix_step(file.prefix_step),
        bpe(std::move(file.byte_vocabulary), file.merges, file.ignore_merges),
        ids(std::move(file.vocabulary)),
        prompt_prefix(std::move(file.prompt_prefix)) {
    for (const auto& [text, id] : ids) entry(id).bytes = bytes_of_byte_level(text).value_or(text);
    for (const AddedToken& token : file.added) {
      ids.insert_or_assign(token.content, token.id);
      entry(token.id) = {token.content, token.special};
    }
  }

  Entry& entry(TokenId id) {
    if (id >= entries.size()) entries.resize(id + 1);
    return entries[id];
  }

  std::vector<AddedToken> pick(std::vector<AddedToken> tokens, bool normalized) const {
    std::erase_if(tokens, [&](const AddedToken& token) { return token.normalized != normalized; });
    if (normalized && nfc)
      for (AddedToken& token : tokens) token.content = to_nfc(token.content);
    return tokens;
  }

  // The added tokens in text go to out, what lies between them to plain.
  static void around(const AddedTokens& added, std::string_view text, bool allow_special,
                     std::vector<TokenId>& out, const std::function<void(std::string_view)>& plain) {
    std::size_t done = 0;
    for (auto match = added.find(text, 0, allow_special); match.token != nullptr;
         match = added.find(text, done, allow_special)) {
      if (match.begin > done) plain(text.substr(done, match.begin - done));
      out.push_back(match.token->id);
      done = match.end;
    }
    if (done < text.size()) plain(text.substr(done));
  }

  void encode(std::string_view text, bool allow_special, std::vector<TokenId>& out) const {
    around(added_raw, text, allow_special, out, [&](std::string_view raw) {
      const std::string normal = nfc ? to_nfc(std::string(raw)) : std::string(raw);
      around(added_normalized, normal, allow_special, out, [&](std::string_view rest) { cut(0, rest, out); });
    });
  }

  // Applies the pre-tokenizers from step on to one piece.
  void cut(std::size_t step, std::string_view text, std::vector<TokenId>& out) const {
    std::string spaced;
    if (prefix_step == step && !text.starts_with(' ')) {
      spaced.append(1, ' ').append(text);
      text = spaced;
    }
    if (step == splits.size()) return bpe.encode(text, out);
    const SplitStep& split = splits[step];
    split.regex.split(text, [&](std::string_view piece, bool matched) {
      if (split.removed && matched != split.invert) return;
      cut(step + 1, piece, out);
    });
  }

  bool nfc;
  AddedTokens added_raw, added_normalized;
  std::vector<SplitStep> splits;
  std::optional<std::size_t> prefix_step;
  Bpe bpe;
  std::unordered_map<std::string, TokenId> ids;
  std::vector<Entry> entries;  // by id
  std::vector<TokenId> prompt_prefix;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_json(const std::string& text, const std::string& name) {
  return Tokenizer(std::make_unique<Impl>(read_tokenizer_file(text, name)));
}

Tokenizer Tokenizer::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::vector<TokenId> Tokenizer::encode(std::string_view bytes, bool allow_special) const {
  std::string repaired;
  if (!is_valid_utf8(bytes)) {
    repaired = repair_utf8(bytes);
    bytes = repaired;
  }
  std::vector<TokenId> out;
  impl_->encode(bytes, allow_special, out);
  return out;
}

std::span<const TokenId> Tokenizer::prompt_prefix() const { return impl_->prompt_prefix; }

std::string_view Tokenizer::bytes(TokenId id) const {
  return id < impl_->entries.size() ? std::string_view(impl_->entries[id].bytes) : std::string_view();
}

bool Tokenizer::is_special(TokenId id) const {
  return id < impl_->entries.size() && impl_->entries[id].special;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string all;
  for (const TokenId id : ids)
    if (!skip_special || !is_special(id)) all += bytes(id);
  return repair_utf8(all);
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  const auto found = impl_->ids.find(std::string(token));
  if (found == impl_->ids.end()) return std::nullopt;
  return found->second;
}

std::size_t Tokenizer::vocab_size() const { return impl_->entries.size(); }

}  // namespace lynx
