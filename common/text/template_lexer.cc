#include "common/text/template_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "common/text/template_error.h"
#include "common/text/utf8.h"

namespace lynx::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::array<std::string_view, 5> kTwoCharSymbols{"==", "!=", "<=", ">=", "//"};
constexpr std::string_view kOneCharSymbols = "+-*/%~<>=()[]{}.,:|";

// Every line ends with \n alone, and the last one not at all.
std::string normal_lines(const std::string& source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(normal_lines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = next_tag();
      text_until(tag);
      if (tag == std::string::npos) break;
      if (source_[tag + 1] == '#')
        comment();
      else
        code();
    }
    push(Kind::kEof);
    return std::move(tokens_);
  }

 private:
  std::size_t next_tag() const {
    for (std::size_t i = source_.find('{', at_); i != std::string::npos; i = source_.find('{', i + 1))
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    return std::string::npos;
  }

  void push(Kind kind, std::string text = {}) { tokens_.push_back({kind, std::move(text), line_}); }

  // Emits the text before the tag, with what the tags on both sides cut away.
  void text_until(std::size_t tag) {
    std::string text = source_.substr(at_, tag == std::string::npos ? tag : tag - at_);
    const int line_after = line_ + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    bool at_line_start = at_ == 0;  // whether an empty text begins a line
    if (strip_next_) {
      text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    } else if (trim_newline_ && text.starts_with("\n")) {
      text.erase(0, 1);
      at_line_start = true;
    }
    if (tag != std::string::npos) {
      const char control = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      if (control == '-') {
        text.erase(text.find_last_not_of(" \t\r\n") + 1);
      } else if (control != '+' && source_[tag + 1] != '{') {
        const std::size_t last = text.find_last_not_of(" \t");
        if (last == std::string::npos ? at_line_start : text[last] == '\n') text.erase(last + 1);
      }
    }
    if (!text.empty()) push(Kind::kText, std::move(text));
    line_ = line_after;
    at_ = tag == std::string::npos ? source_.size() : tag;
    strip_next_ = trim_newline_ = false;
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) fail(line_, "a comment is not closed");
    count_lines(at_, end);
    strip_next_ = source_[end - 1] == '-';
    trim_newline_ = true;
    at_ = end + 2;
  }

  void code() {
    const bool block = source_[at_ + 1] == '%';
    push(block ? Kind::kBlockBegin : Kind::kOutputBegin);
    at_ += 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    const std::string_view close = block ? "%}" : "}}";
    int nesting = 0;  // braces of a dict literal
    while (true) {
      skip_spaces();
      const std::string_view rest = std::string_view(source_).substr(at_);
      if (rest.empty()) fail(line_, "a tag is not closed");
      const bool dash = rest[0] == '-' || rest[0] == '+';
      if (nesting == 0 && rest.substr(dash ? 1 : 0).starts_with(close)) {
        strip_next_ = rest[0] == '-';
        trim_newline_ = block && rest[0] != '+';
        at_ += close.size() + (dash ? 1 : 0);
        push(Kind::kEnd);
        return;
      }
      if (rest[0] == '{') ++nesting;
      if (rest[0] == '}') --nesting;
      one_token(rest);
    }
  }

  void one_token(std::string_view rest) {
    const auto c = static_cast<unsigned char>(rest[0]);
    if (c == '\'' || c == '"') return string_literal();
    if (std::isdigit(c) != 0) return number(rest);
    if (std::isalpha(c) != 0 || c == '_') {
      std::size_t n = 1;
      while (n < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[n])) != 0 || rest[n] == '_'))
        ++n;
      push(Kind::kName, std::string(rest.substr(0, n)));
      at_ += n;
      return;
    }
    for (const std::string_view symbol : kTwoCharSymbols)
      if (rest.starts_with(symbol)) return symbol_token(symbol);
    if (kOneCharSymbols.find(rest[0]) == std::string_view::npos)
      fail(line_, std::string("unexpected character '") + rest[0] + "'");
    symbol_token(rest.substr(0, 1));
  }

  void symbol_token(std::string_view symbol) {
    push(Kind::kSymbol, std::string(symbol));
    at_ += symbol.size();
  }

  void number(std::string_view rest) {
    std::size_t n = 0;
    bool point = false;
    while (n < rest.size() &&
           (std::isdigit(static_cast<unsigned char>(rest[n])) != 0 || (rest[n] == '.' && !point))) {
      if (rest[n] == '.') {
        if (n + 1 >= rest.size() || std::isdigit(static_cast<unsigned char>(rest[n + 1])) == 0) break;
        point = true;
      }
      ++n;
    }
    if (n > 15) fail(line_, "a number is too long");
    push(point ? Kind::kFloat : Kind::kInteger, std::string(rest.substr(0, n)));
    at_ += n;
  }

  void string_literal() {
    const char quote = source_[at_++];
    std::string text;
    while (true) {
      if (at_ >= source_.size()) fail(line_, "a string is not closed");
      const char c = source_[at_++];
      if (c == quote) break;
      if (c == '\n') ++line_;
      if (c == '\\')
        escape(text);
      else
        text += c;
    }
    push(Kind::kString, std::move(text));
  }

  void escape(std::string& text) {
    constexpr std::string_view kNames = "ntrbfav\\'\"", kMeanings = "\n\t\r\b\f\a\v\\'\"";
    if (at_ >= source_.size()) fail(line_, "a string is not closed");
    const char c = source_[at_++];
    if (c == 'x') return append_utf8(text, hexadecimal(2));
    if (c == 'u') return append_utf8(text, hexadecimal(4));
    const std::size_t known = kNames.find(c);
    if (known == std::string_view::npos) fail(line_, std::string("the escape \\") + c + " is not supported");
    text += kMeanings[known];
  }

  char32_t hexadecimal(std::size_t digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char c = at_ < source_.size() ? source_[at_++] : ' ';
      const std::size_t digit = kDigits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
      if (digit == std::string_view::npos) fail(line_, "an escape has too few digits");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value >= 0xD800 && value <= 0xDFFF) fail(line_, "half of a surrogate pair is not supported");
    return value;
  }

  void skip_spaces() {
    while (at_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[at_])) != 0)
      if (source_[at_++] == '\n') ++line_;
  }

  void count_lines(std::size_t from, std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(from),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  }

  const std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool strip_next_ = false, trim_newline_ = false;  // of the tag that came last
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& source) { return Lexer(source).run(); }

}  // namespace lynx::jinja
