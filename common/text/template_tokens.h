// What the parsers read from: a template's tokens, and how deeply the parsing is nested.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/template_error.h"
#include "common/text/template_lexer.h"

namespace lynx::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}  // the last is kEof

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token take() { return tokens_[at_ == tokens_.size() - 1 ? at_ : at_++]; }
  [[noreturn]] void refuse(const std::string& what) const { fail(peek().line, what); }

  bool is_symbol(std::string_view text, std::size_t ahead = 0) const {
    return is(Token::Kind::kSymbol, text, ahead);
  }
  bool is_word(std::string_view text, std::size_t ahead = 0) const {
    return is(Token::Kind::kName, text, ahead);
  }
  bool is_block(std::string_view word) const {  // {% word
    return peek().kind == Token::Kind::kBlockBegin && is_word(word, 1);
  }
  bool accept_symbol(std::string_view text) { return is_symbol(text) && skip(); }
  bool accept_word(std::string_view text) { return is_word(text) && skip(); }

  void expect_symbol(std::string_view text) {
    if (!accept_symbol(text)) refuse("expected '" + std::string(text) + "', got '" + peek().text + "'");
  }
  std::string expect_name() {
    if (peek().kind != Token::Kind::kName) refuse("expected a name, got '" + peek().text + "'");
    return take().text;
  }
  void expect_end() {  // of a tag
    if (peek().kind != Token::Kind::kEnd) refuse("unexpected '" + peek().text + "'");
    take();
  }

  // Bounds the recursion of whoever holds one.
  class Nested {
   public:
    explicit Nested(TokenStream& tokens) : tokens_(tokens) {
      if (++tokens_.depth_ > kMaxDepth) tokens_.refuse("nested too deeply");
    }
    ~Nested() { --tokens_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    static constexpr int kMaxDepth = 100;
    TokenStream& tokens_;
  };

 private:
  bool is(Token::Kind kind, std::string_view text, std::size_t ahead) const {
    return peek(ahead).kind == kind && peek(ahead).text == text;
  }
  bool skip() {
    take();
    return true;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace lynx::jinja
