#include "common/text/oniguruma_pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <stdexcept>

namespace lynx {
namespace {

// Unicode's White_Space, for use in a class. PCRE2's own \s has U+180E besides.
constexpr std::string_view kSpaces = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kSameEscapes = "dDnrtfeazA";  // \w, \b, \h, \v, \R, \X and \K differ or may
constexpr std::array<std::string_view, 8> kGroups{"(?:", "(?i:", "(?i)", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\')
        escape(false);
      else if (c == '[')
        character_class();
      else if (c == '(')
        group();
      else if (c == '{')
        interval();
      else
        copy(1);
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("offset " + std::to_string(at_) + ": " + what + " is not supported");
  }

  void copy(std::size_t length) {
    out_ += pattern_.substr(at_, length);
    at_ += length;
  }

  void replace(std::size_t length, std::string_view by) {
    out_ += by;
    at_ += length;
  }

  void escape(bool in_class) {
    if (at_ + 1 == pattern_.size()) fail("a backslash at the end");
    const char c = pattern_[at_ + 1];
    if (c == 's' && in_class) return replace(2, kSpaces);
    if (c == 's') return replace(2, "[" + std::string(kSpaces) + "]");
    if (c == 'S' && in_class) return replace(2, R"(\S\x{180E})");
    if (c == 'S') return replace(2, "[^" + std::string(kSpaces) + "]");
    if (c == 'p' || c == 'P') return property();
    if (c == 'x' && pattern_.substr(at_).starts_with("\\x{")) return copy(3);
    if (is_alphanumeric(c) && kSameEscapes.find(c) == std::string_view::npos) fail(std::string("\\") + c);
    copy(2);
  }

  // \p{Lu}: a category of one or two letters means the same. A longer name is a script; PCRE2 counts
  // characters that several scripts share when it is not told "sc:".
  void property() {
    const std::size_t close = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || close == std::string_view::npos)
      fail("a property without braces");
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_alphanumeric))
      fail("this name of a property");
    out_ += pattern_.substr(at_, 3);
    out_ += negated ? "^" : "";
    out_ += name.size() > 2 ? "sc:" : "";
    out_ += name;
    out_ += '}';
    at_ = close + 1;
  }

  void character_class() {
    copy(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') copy(1);
    if (at_ < pattern_.size() && pattern_[at_] == ']') copy(1);  // a bracket that comes first is itself
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (pattern_[at_] == '[') fail("a class in a class");
      if (pattern_.substr(at_).starts_with("&&")) fail("&& in a class");
      if (pattern_[at_] == '\\')
        escape(true);
      else
        copy(1);
    }
    if (at_ < pattern_.size()) copy(1);
  }

  void group() {
    const std::string_view rest = pattern_.substr(at_);
    if (rest.starts_with("(*")) fail("(*");
    if (!rest.starts_with("(?")) return copy(1);
    for (const std::string_view known : kGroups)
      if (rest.starts_with(known)) return copy(known.size());
    fail("a group " + std::string(rest.substr(0, 3)));
  }

  // {n,m}+ repeats the repetition there and is possessive here; {n}? is optional there and lazy here.
  void interval() {
    const std::size_t close = pattern_.find_first_not_of("0123456789,", at_ + 1);
    if (close == std::string_view::npos || pattern_[close] != '}') return copy(1);
    const std::string_view inside = pattern_.substr(at_ + 1, close - at_ - 1);
    if (inside.starts_with(',')) fail("an interval without its lower end");
    const char after = close + 1 < pattern_.size() ? pattern_[close + 1] : ' ';
    if (after == '+' || after == '?') fail(std::string("an interval followed by ") + after);
    copy(close + 1 - at_);
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string pcre2_of_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

std::string literal_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace lynx
