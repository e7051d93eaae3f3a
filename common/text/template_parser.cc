#include "common/text/template_parser.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/text/template_expressions.h"
#include "common/text/template_lexer.h"
#include "common/text/template_tokens.h"

namespace lynx::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Body whole() {
    Body body = statements({});
    if (tokens_.peek().kind != Token::Kind::kEof)
      tokens_.refuse("'" + tokens_.peek(1).text + "' stands alone");
    return body;
  }

 private:
  // Up to a block that ends something or begins with one of the words; that block stays.
  Body statements(const std::vector<std::string_view>& until) {
    const TokenStream::Nested nested(tokens_);
    Body body;
    while (tokens_.peek().kind != Token::Kind::kEof) {
      if (tokens_.peek().kind == Token::Kind::kBlockBegin) {
        const std::string& word = tokens_.peek(1).text;
        if (word.starts_with("end") || std::find(until.begin(), until.end(), word) != until.end())
          return body;
      }
      body.push_back(statement());
    }
    return body;
  }

  std::unique_ptr<Statement> statement() {
    auto out = std::make_unique<Statement>();
    const Token first = tokens_.take();
    out->line = first.line;
    if (first.kind == Token::Kind::kText) {
      out->text = first.text;
    } else if (first.kind == Token::Kind::kOutputBegin) {
      out->kind = Statement::Kind::kOutput;
      out->expression = parse_expression(tokens_);
      tokens_.expect_end();
    } else {
      block(*out);
    }
    return out;
  }

  void block(Statement& out) {
    const std::string word = tokens_.expect_name();
    if (word == "if") return if_block(out);
    if (word == "for") return for_block(out);
    if (word == "set") return set_block(out);
    if (word == "generation") return generation_block(out);
    fail(out.line, "the tag '" + word + "' is not supported");
  }

  void open(std::string_view word) {  // {% word
    if (tokens_.peek().kind != Token::Kind::kBlockBegin)
      tokens_.refuse("expected {% " + std::string(word) + " %}");
    tokens_.take();
    if (!tokens_.accept_word(word))
      tokens_.refuse("expected '" + std::string(word) + "', got '" + tokens_.peek().text + "'");
  }

  void close(std::string_view word) {
    open(word);
    tokens_.expect_end();
  }

  void condition(Statement& out) {
    out.branches.push_back({parse_expression(tokens_), {}});
    tokens_.expect_end();
    out.branches.back().body = statements({"elif", "else"});
  }

  void otherwise(Statement& out) {
    if (!tokens_.is_block("else")) return;
    close("else");
    out.branches.push_back({nullptr, statements({})});
  }

  void if_block(Statement& out) {
    out.kind = Statement::Kind::kIf;
    condition(out);
    while (tokens_.is_block("elif")) {
      open("elif");
      condition(out);
    }
    otherwise(out);
    close("endif");
  }

  void for_block(Statement& out) {
    out.kind = Statement::Kind::kFor;
    out.names.push_back(tokens_.expect_name());
    while (tokens_.accept_symbol(",")) out.names.push_back(tokens_.expect_name());
    if (!tokens_.accept_word("in")) tokens_.refuse("expected 'in'");
    out.expression = parse_without_condition(tokens_);
    if (tokens_.accept_word("if")) out.filter = parse_expression(tokens_);
    if (tokens_.is_word("recursive")) tokens_.refuse("'recursive' is not supported");
    tokens_.expect_end();
    out.branches.push_back({nullptr, statements({"else"})});
    otherwise(out);
    close("endfor");
  }

  void set_block(Statement& out) {
    out.kind = Statement::Kind::kSet;
    out.names.push_back(tokens_.expect_name());
    if (tokens_.accept_symbol(".")) out.names.push_back(tokens_.expect_name());
    if (!tokens_.accept_symbol("=")) tokens_.refuse("only {% set name = value %} is supported");
    out.expression = parse_expression(tokens_);
    tokens_.expect_end();
  }

  // Marks what the model said, for training; a server just prints it.
  void generation_block(Statement& out) {
    out.kind = Statement::Kind::kIf;
    tokens_.expect_end();
    out.branches.push_back({nullptr, statements({})});
    close("endgeneration");
  }

  TokenStream tokens_;
};

}  // namespace

Body parse_template(const std::string& source) { return Parser(tokenize(source)).whole(); }

}  // namespace lynx::jinja
