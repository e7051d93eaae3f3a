#include "common/text/template_text.h"

#include <utf8proc.h>

#include "common/text/template_error.h"
#include "common/text/utf8.h"

namespace lynx::jinja {
namespace {

bool is_space(char32_t c) {  // Python's str.isspace
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string_view first_of(std::string_view text) { return text.substr(0, utf8_step(text).length); }

std::string_view last_of(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && (text[start] & 0xC0) == 0x80) --start;
  return text.substr(start);
}

bool is_space(std::string_view character) { return is_space(utf8_step(character).codepoint); }

// Runs of white space apart.
std::vector<std::string_view> words_of(std::string_view text, std::int64_t most) {
  std::vector<std::string_view> out;
  const auto skip_spaces = [&] {
    while (!text.empty() && is_space(first_of(text))) text.remove_prefix(first_of(text).size());
  };
  for (skip_spaces(); !text.empty(); skip_spaces()) {
    if (static_cast<std::int64_t>(out.size()) == most) {
      out.push_back(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size() && !is_space(first_of(text.substr(end))))
      end += first_of(text.substr(end)).size();
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

std::vector<std::string_view> characters_of(std::string_view text, int line) {
  std::vector<std::string_view> out;
  for (; !text.empty(); text.remove_prefix(out.back().size())) {
    if (out.size() == kMaxItems) fail(line, "a list is too long");
    out.push_back(first_of(text));
  }
  return out;
}

std::string strip(std::string_view text, std::optional<std::string_view> characters, Side side) {
  const auto goes = [&](std::string_view character) {
    return characters ? characters->find(character) != std::string_view::npos : is_space(character);
  };
  if (side != Side::kRight)
    while (!text.empty() && goes(first_of(text))) text.remove_prefix(first_of(text).size());
  if (side != Side::kLeft)
    while (!text.empty() && goes(last_of(text))) text.remove_suffix(last_of(text).size());
  return std::string(text);
}

std::string change_case(std::string_view text, Case to) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.codepoint == 0xDF && to == Case::kUpper) {
      out += "SS";
    } else if (step.kind == Utf8Step::Kind::kValid) {
      const auto c = static_cast<utf8proc_int32_t>(step.codepoint);
      append_utf8(out, static_cast<char32_t>(to == Case::kUpper ? utf8proc_toupper(c) : utf8proc_tolower(c)));
    } else {
      out += text.substr(0, step.length);
    }
    text.remove_prefix(step.length);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const std::string_view first = first_of(text);
  return change_case(first, Case::kUpper) + change_case(text.substr(first.size()), Case::kLower);
}

std::string concatenate(const std::string& left, const std::string& right, int line) {
  if (left.size() + right.size() > kMaxTextBytes) fail(line, "a text is too long");
  return left + right;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t most,
                    int line) {
  if (from.empty()) fail(line, "replace: nothing to look for");
  std::string out;
  for (std::size_t next; most != 0 && (next = text.find(from)) != std::string_view::npos; --most) {
    if (out.size() + next + to.size() > kMaxTextBytes) fail(line, "a text is too long");
    out.append(text.substr(0, next)).append(to);
    text.remove_prefix(next + from.size());
  }
  return out.append(text);
}

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator,
                                    std::int64_t most, int line) {
  if (!separator) return words_of(text, most);
  if (separator->empty()) fail(line, "split: empty separator");
  std::vector<std::string_view> out;
  for (std::size_t next; most != 0 && (next = text.find(*separator)) != std::string_view::npos; --most) {
    if (out.size() == kMaxItems) fail(line, "a list is too long");
    out.push_back(text.substr(0, next));
    text.remove_prefix(next + separator->size());
  }
  out.push_back(text);
  return out;
}

}  // namespace lynx::jinja
