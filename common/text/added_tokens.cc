#include "common/text/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/text/utf8.h"

namespace lynx {
namespace {

bool is_space(char32_t c) {  // Unicode White_Space
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Unicode's \w: alphabetic, marks, digits, connectors, joiners.
bool is_word(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // circled and squared letters are symbols, and alphabetic
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  }
}

std::size_t start_of_last(std::string_view text, std::size_t limit) {
  std::size_t start = text.size() - 1;
  while (start > limit && (static_cast<std::uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

bool stands_alone(std::string_view before, std::string_view after) {
  const bool left = !before.empty() && is_word(utf8_step(before.substr(start_of_last(before, 0))).codepoint);
  const bool right = !after.empty() && is_word(utf8_step(after).codepoint);
  return !left && !right;
}

std::size_t skip_spaces(std::string_view text, std::size_t from) {
  while (from < text.size()) {
    const Utf8Step step = utf8_step(text.substr(from));
    if (step.kind != Utf8Step::Kind::kValid || !is_space(step.codepoint)) break;
    from += step.length;
  }
  return from;
}

std::size_t back_over_spaces(std::string_view text, std::size_t to, std::size_t limit) {
  while (to > limit) {
    const std::size_t start = start_of_last(text.substr(0, to), limit);
    if (!is_space(utf8_step(text.substr(start)).codepoint)) break;
    to = start;
  }
  return to;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    by_first_byte_[static_cast<std::uint8_t>(tokens_[i].content[0])].push_back(i);
  for (auto& indices : by_first_byte_)
    std::stable_sort(indices.begin(), indices.end(), [&](std::size_t a, std::size_t b) {
      return tokens_[a].content.size() > tokens_[b].content.size();
    });
}

const AddedToken* AddedTokens::longest_at(std::string_view text, bool allow_special) const {
  for (const std::size_t i : by_first_byte_[static_cast<std::uint8_t>(text[0])])
    if ((allow_special || !tokens_[i].special) && text.starts_with(tokens_[i].content)) return &tokens_[i];
  return nullptr;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from, bool allow_special) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    const AddedToken* token = longest_at(text.substr(at), allow_special);
    if (token == nullptr) continue;
    Match match{at, at + token->content.size(), token};
    if (token->single_word && !stands_alone(text.substr(0, at), text.substr(match.end))) {
      at = match.end - 1;
      continue;
    }
    if (token->lstrip) match.begin = back_over_spaces(text, match.begin, from);
    if (token->rstrip) match.end = skip_spaces(text, match.end);
    return match;
  }
  return {};
}

}  // namespace lynx
