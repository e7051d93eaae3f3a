#include "common/text/template_parser.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "common/text/template_lexer.h"
#include "common/text/template_values.h"

namespace lynx::jinja {
namespace {

using Kind = Token::Kind;
using Node = Expression::Kind;

constexpr int kMaxDepth = 100;  // of nesting: bounds the recursion here and in the evaluator

ExpressionPtr make(Node kind, int line, std::string name = {}) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  return node;
}

ExpressionPtr literal(Value value, int line) {
  auto node = make(Node::kLiteral, line);
  node->value = std::move(value);
  return node;
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Body whole() {
    Body body = statements({});
    if (peek().kind != Kind::kEof) fail("'" + tokens_[at_ + 1].text + "' stands alone");
    return body;
  }

 private:
  struct Deeper {
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) parser_.fail("nested too deeply");
    }
    ~Deeper() { --parser_.depth_; }
    Parser& parser_;
  };

  const Token& peek() const { return tokens_[at_]; }
  Token take() { return tokens_[at_ == tokens_.size() - 1 ? at_ : at_++]; }
  [[noreturn]] void fail(const std::string& what) const { throw TemplateError(peek().line, what); }

  bool is(Kind kind, std::string_view text) const { return peek().kind == kind && peek().text == text; }
  bool accept(Kind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    take();
    return true;
  }
  bool accept_symbol(std::string_view text) { return accept(Kind::kSymbol, text); }
  bool accept_word(std::string_view text) { return accept(Kind::kName, text); }
  void expect_symbol(std::string_view text) {
    if (!accept_symbol(text)) fail("expected '" + std::string(text) + "', got '" + peek().text + "'");
  }
  std::string expect_name() {
    if (peek().kind != Kind::kName) fail("expected a name, got '" + peek().text + "'");
    return take().text;
  }
  void expect_end() {
    if (peek().kind != Kind::kEnd) fail("unexpected '" + peek().text + "'");
    take();
  }

  // --- statements

  // Up to a block that begins with one of the words; that block stays.
  Body statements(const std::vector<std::string_view>& until) {
    const Deeper deeper(*this);
    Body body;
    while (peek().kind != Kind::kEof) {
      if (peek().kind == Kind::kBlockBegin &&
          std::find(until.begin(), until.end(), tokens_[at_ + 1].text) != until.end())
        return body;
      if (peek().kind == Kind::kBlockBegin && tokens_[at_ + 1].text.starts_with("end")) return body;
      body.push_back(statement());
    }
    return body;
  }

  std::unique_ptr<Statement> statement() {
    auto out = std::make_unique<Statement>();
    out->line = peek().line;
    const Token first = take();
    if (first.kind == Kind::kText) {
      out->text = first.text;
    } else if (first.kind == Kind::kOutputBegin) {
      out->kind = Statement::Kind::kOutput;
      out->expression = expression();
      expect_end();
    } else {
      const std::string word = expect_name();
      if (word == "if")
        if_block(*out);
      else if (word == "for")
        for_block(*out);
      else if (word == "set")
        set_block(*out);
      else
        throw TemplateError(out->line, "the tag '" + word + "' is not supported");
    }
    return out;
  }

  void open(std::string_view word) {  // {% word
    if (peek().kind != Kind::kBlockBegin) fail("expected {% " + std::string(word) + " %}");
    take();
    if (!accept_word(word)) fail("expected '" + std::string(word) + "', got '" + peek().text + "'");
  }
  bool next_is(std::string_view word) const {
    return peek().kind == Kind::kBlockBegin && tokens_[at_ + 1].text == word;
  }

  void if_block(Statement& out) {
    out.kind = Statement::Kind::kIf;
    out.branches.push_back({expression(), {}});
    expect_end();
    out.branches.back().body = statements({"elif", "else"});
    while (next_is("elif")) {
      open("elif");
      out.branches.push_back({expression(), {}});
      expect_end();
      out.branches.back().body = statements({"elif", "else"});
    }
    if (next_is("else")) {
      open("else");
      expect_end();
      out.branches.push_back({nullptr, statements({})});
    }
    open("endif");
    expect_end();
  }

  void for_block(Statement& out) {
    out.kind = Statement::Kind::kFor;
    out.names.push_back(expect_name());
    while (accept_symbol(",")) out.names.push_back(expect_name());
    if (!accept_word("in")) fail("expected 'in'");
    out.expression = or_expression();
    if (accept_word("if")) out.filter = expression();
    if (is(Kind::kName, "recursive")) fail("'recursive' is not supported");
    expect_end();
    out.branches.push_back({nullptr, statements({"else"})});
    if (next_is("else")) {
      open("else");
      expect_end();
      out.branches.push_back({nullptr, statements({})});
    }
    open("endfor");
    expect_end();
  }

  void set_block(Statement& out) {
    out.kind = Statement::Kind::kSet;
    out.names.push_back(expect_name());
    if (accept_symbol(".")) out.names.push_back(expect_name());
    if (!accept_symbol("=")) fail("only {% set name = value %} is supported");
    out.expression = expression();
    expect_end();
  }

  // --- expressions, from the loosest binding to the tightest

  ExpressionPtr expression() {
    const Deeper deeper(*this);
    ExpressionPtr value = or_expression();
    while (is(Kind::kName, "if")) {
      auto node = make(Node::kConditional, take().line);
      node->children.push_back(std::move(value));
      node->children.push_back(or_expression());
      node->children.push_back(accept_word("else") ? expression() : nullptr);
      value = std::move(node);
    }
    return value;
  }

  ExpressionPtr binary(const std::string& name, ExpressionPtr left, ExpressionPtr right) {
    auto node = make(Node::kBinary, left->line, name);
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    return node;
  }

  ExpressionPtr unary(const std::string& name, ExpressionPtr operand) {
    auto node = make(Node::kUnary, operand->line, name);
    node->children.push_back(std::move(operand));
    return node;
  }

  ExpressionPtr or_expression() {
    ExpressionPtr left = and_expression();
    while (accept_word("or")) left = binary("or", std::move(left), and_expression());
    return left;
  }

  ExpressionPtr and_expression() {
    ExpressionPtr left = not_expression();
    while (accept_word("and")) left = binary("and", std::move(left), not_expression());
    return left;
  }

  ExpressionPtr not_expression() {
    const Deeper deeper(*this);
    if (accept_word("not")) return unary("not", not_expression());
    return comparison();
  }

  ExpressionPtr comparison() {
    ExpressionPtr left = sum();
    while (true) {
      if (is(Kind::kName, "not") && tokens_[at_ + 1].text == "in") {
        take();
        take();
        left = unary("not", binary("in", std::move(left), sum()));
      } else if (accept_word("in")) {
        left = binary("in", std::move(left), sum());
      } else if (const std::string symbol = accept_one_of({"==", "!=", "<=", ">=", "<", ">"});
                 !symbol.empty()) {
        left = binary(symbol, std::move(left), sum());
      } else {
        return left;
      }
    }
  }

  std::string accept_one_of(std::initializer_list<std::string_view> symbols) {
    for (const std::string_view symbol : symbols)
      if (accept_symbol(symbol)) return std::string(symbol);
    return {};
  }

  ExpressionPtr sum() {
    ExpressionPtr left = concatenation();
    for (std::string symbol; !(symbol = accept_one_of({"+", "-"})).empty();)
      left = binary(symbol, std::move(left), concatenation());
    return left;
  }

  ExpressionPtr concatenation() {
    ExpressionPtr left = product();
    while (accept_symbol("~")) left = binary("~", std::move(left), product());
    return left;
  }

  ExpressionPtr product() {
    ExpressionPtr left = sign();
    for (std::string symbol; !(symbol = accept_one_of({"*", "//", "/", "%"})).empty();)
      left = binary(symbol, std::move(left), sign());
    return left;
  }

  ExpressionPtr sign() {
    const Deeper deeper(*this);
    if (const std::string symbol = accept_one_of({"-", "+"}); !symbol.empty()) return unary(symbol, sign());
    return postfix(primary());
  }

  ExpressionPtr primary() {
    const Token token = take();
    switch (token.kind) {
      case Kind::kString: {
        std::string text = token.text;
        while (peek().kind == Kind::kString) text += take().text;  // adjacent strings join, as in Python
        return literal(text, token.line);
      }
      case Kind::kInteger:
        return literal(std::strtoll(token.text.c_str(), nullptr, 10), token.line);
      case Kind::kFloat:
        return literal(std::strtod(token.text.c_str(), nullptr), token.line);
      case Kind::kName:
        return name(token);
      case Kind::kSymbol:
        if (token.text == "(") return parenthesis();
        if (token.text == "[") return list(token.line);
        if (token.text == "{") return dict(token.line);
        break;
      case Kind::kText:
      case Kind::kOutputBegin:
      case Kind::kBlockBegin:
      case Kind::kEnd:
      case Kind::kEof:
        break;
    }
    throw TemplateError(token.line, "expected a value, got '" + token.text + "'");
  }

  ExpressionPtr name(const Token& token) {
    if (token.text == "true" || token.text == "True") return literal(true, token.line);
    if (token.text == "false" || token.text == "False") return literal(false, token.line);
    if (token.text == "none" || token.text == "None") return literal(nullptr, token.line);
    if (!is(Kind::kSymbol, "(")) return make(Node::kName, token.line, token.text);
    if (!is_function(token.text))
      throw TemplateError(token.line, "the function '" + token.text + "' is not supported");
    auto node = make(Node::kCall, token.line, token.text);
    arguments(*node);
    return node;
  }

  ExpressionPtr parenthesis() {
    ExpressionPtr inner = expression();
    if (is(Kind::kSymbol, ",")) fail("tuples are not supported; use a list");
    expect_symbol(")");
    return inner;
  }

  ExpressionPtr list(int line) {
    auto node = make(Node::kList, line);
    while (!accept_symbol("]")) {
      node->children.push_back(expression());
      if (!is(Kind::kSymbol, "]")) expect_symbol(",");
    }
    return node;
  }

  ExpressionPtr dict(int line) {
    auto node = make(Node::kDict, line);
    while (!accept_symbol("}")) {
      node->children.push_back(expression());
      expect_symbol(":");
      node->children.push_back(expression());
      if (!is(Kind::kSymbol, "}")) expect_symbol(",");
    }
    return node;
  }

  void arguments(Expression& call) {
    expect_symbol("(");
    while (!accept_symbol(")")) {
      const bool keyword = peek().kind == Kind::kName && tokens_[at_ + 1].kind == Kind::kSymbol &&
                           tokens_[at_ + 1].text == "=";
      if (keyword) {
        std::string key = take().text;
        take();
        call.keywords.emplace_back(std::move(key), expression());
      } else {
        call.children.push_back(expression());
      }
      if (!is(Kind::kSymbol, ")")) expect_symbol(",");
    }
  }

  ExpressionPtr postfix(ExpressionPtr value) {
    for (int length = 0;; ++length) {
      if (length > kMaxDepth) fail("nested too deeply");
      if (accept_symbol("."))
        value = attribute(std::move(value));
      else if (accept_symbol("["))
        value = subscript(std::move(value));
      else if (accept_symbol("|"))
        value = filter(std::move(value));
      else if (accept_word("is"))
        value = test(std::move(value));
      else
        return value;
    }
  }

  ExpressionPtr attribute(ExpressionPtr object) {
    const int line = peek().line;
    std::string key = expect_name();
    const bool call = is(Kind::kSymbol, "(");
    if (call && !is_method(key)) throw TemplateError(line, "the method '" + key + "' is not supported");
    auto node = make(call ? Node::kMethod : Node::kAttribute, line, std::move(key));
    node->children.push_back(std::move(object));
    if (call) arguments(*node);
    return node;
  }

  ExpressionPtr subscript(ExpressionPtr object) {
    auto node = make(Node::kItem, peek().line);
    node->children.push_back(std::move(object));
    const auto part = [&] {
      return is(Kind::kSymbol, ":") || is(Kind::kSymbol, "]") ? nullptr : expression();
    };
    node->children.push_back(part());
    while (accept_symbol(":")) {
      node->kind = Node::kSlice;
      if (node->children.size() > 3) fail("a slice has three parts");
      node->children.push_back(part());
    }
    expect_symbol("]");
    if (node->kind == Node::kItem && node->children[1] == nullptr) fail("expected an index");
    if (node->kind == Node::kSlice) node->children.resize(4);
    return node;
  }

  ExpressionPtr filter(ExpressionPtr value) {
    const int line = peek().line;
    std::string word = expect_name();
    if (!is_filter(word)) throw TemplateError(line, "the filter '" + word + "' is not supported");
    auto node = make(Node::kFilter, line, std::move(word));
    node->children.push_back(std::move(value));
    if (is(Kind::kSymbol, "(")) arguments(*node);
    return node;
  }

  ExpressionPtr test(ExpressionPtr value) {
    const bool negated = accept_word("not");
    const int line = peek().line;
    std::string word = expect_name();
    if (!is_test(word)) throw TemplateError(line, "the test '" + word + "' is not supported");
    auto node = make(Node::kTest, line, std::move(word));
    node->children.push_back(std::move(value));
    if (is(Kind::kSymbol, "(")) arguments(*node);
    if (!negated) return node;
    return unary("not", std::move(node));
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Body parse_template(const std::string& source) { return Parser(tokenize(source)).whole(); }

}  // namespace lynx::jinja
