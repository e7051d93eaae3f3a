#include "common/text/template_expressions.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "common/text/template_names.h"

namespace lynx::jinja {
namespace {

using Kind = Token::Kind;
using Node = Expression::Kind;
using Nested = TokenStream::Nested;

constexpr int kMaxHeight = 200;  // of a tree: bounds the recursion of the evaluator and of destruction

ExpressionPtr make(Node kind, int line, std::string name = {}) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  return node;
}

void adopt(Expression& parent, ExpressionPtr child) {
  if (child != nullptr) parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxHeight) fail(parent.line, "nested too deeply");
  parent.children.push_back(std::move(child));
}

ExpressionPtr literal(Value value, int line) {
  auto node = make(Node::kLiteral, line);
  node->value = std::move(value);
  return node;
}

class Parser {
 public:
  explicit Parser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr expression() {
    const Nested nested(tokens_);
    ExpressionPtr value = disjunction();
    while (tokens_.is_word("if")) {
      auto node = make(Node::kConditional, tokens_.take().line);
      adopt(*node, std::move(value));
      adopt(*node, disjunction());
      adopt(*node, tokens_.accept_word("else") ? expression() : nullptr);
      value = std::move(node);
    }
    return value;
  }

  ExpressionPtr disjunction() {
    ExpressionPtr left = conjunction();
    while (tokens_.accept_word("or")) left = binary("or", std::move(left), conjunction());
    return left;
  }

 private:
  ExpressionPtr binary(const std::string& name, ExpressionPtr left, ExpressionPtr right) {
    auto node = make(Node::kBinary, left->line, name);
    adopt(*node, std::move(left));
    adopt(*node, std::move(right));
    return node;
  }

  ExpressionPtr unary(const std::string& name, ExpressionPtr operand) {
    auto node = make(Node::kUnary, operand->line, name);
    adopt(*node, std::move(operand));
    return node;
  }

  ExpressionPtr conjunction() {
    ExpressionPtr left = negation();
    while (tokens_.accept_word("and")) left = binary("and", std::move(left), negation());
    return left;
  }

  ExpressionPtr negation() {
    const Nested nested(tokens_);
    if (tokens_.accept_word("not")) return unary("not", negation());
    return comparison();
  }

  bool at_comparison() const {
    const auto symbols = {"==", "!=", "<=", ">=", "<", ">"};
    return tokens_.is_word("in") || (tokens_.is_word("not") && tokens_.is_word("in", 1)) ||
           std::any_of(symbols.begin(), symbols.end(), [&](const char* s) { return tokens_.is_symbol(s); });
  }

  ExpressionPtr comparison() {
    ExpressionPtr left = sum();
    if (!at_comparison()) return left;
    const bool negated = tokens_.accept_word("not");
    const std::string name = tokens_.take().text;
    left = binary(name, std::move(left), sum());
    if (at_comparison()) tokens_.refuse("a chain of comparisons is not supported");
    return negated ? unary("not", std::move(left)) : std::move(left);
  }

  std::string accept_one_of(std::initializer_list<std::string_view> symbols) {
    for (const std::string_view symbol : symbols)
      if (tokens_.accept_symbol(symbol)) return std::string(symbol);
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
    while (tokens_.accept_symbol("~")) left = binary("~", std::move(left), product());
    return left;
  }

  ExpressionPtr product() {
    ExpressionPtr left = sign();
    for (std::string symbol; !(symbol = accept_one_of({"*", "//", "/", "%"})).empty();)
      left = binary(symbol, std::move(left), sign());
    return left;
  }

  ExpressionPtr sign() {
    const Nested nested(tokens_);
    if (const std::string symbol = accept_one_of({"-", "+"}); !symbol.empty()) return unary(symbol, sign());
    return postfix(primary());
  }

  ExpressionPtr primary() {
    const Token token = tokens_.take();
    switch (token.kind) {
      case Kind::kString: {
        std::string text = token.text;
        while (tokens_.peek().kind == Kind::kString) text += tokens_.take().text;  // neighbours join
        return literal(text, token.line);
      }
      case Kind::kInteger:
        return literal(std::strtoll(token.text.c_str(), nullptr, 10), token.line);
      case Kind::kFloat:
        return literal(std::strtod(token.text.c_str(), nullptr), token.line);
      case Kind::kName:
        return name(token);
      case Kind::kSymbol:
        if (token.text == "(") return parenthesis(token.line);
        if (token.text == "[") return list(token.line, "]");
        if (token.text == "{") return dict(token.line);
        break;
      case Kind::kText:
      case Kind::kOutputBegin:
      case Kind::kBlockBegin:
      case Kind::kEnd:
      case Kind::kEof:
        break;
    }
    fail(token.line, "expected a value, got '" + token.text + "'");
  }

  ExpressionPtr name(const Token& token) {
    if (token.text == "true" || token.text == "True") return literal(true, token.line);
    if (token.text == "false" || token.text == "False") return literal(false, token.line);
    if (token.text == "none" || token.text == "None") return literal(nullptr, token.line);
    if (!tokens_.is_symbol("(")) return make(Node::kName, token.line, token.text);
    const Callable* function = find_function(token.text);
    if (function == nullptr) fail(token.line, "the function '" + token.text + "' is not supported");
    auto node = make(Node::kCall, token.line, token.text);
    if (token.text == "namespace")
      fields(*node);
    else
      arguments(*node, *function, 0);
    return node;
  }

  ExpressionPtr parenthesis(int line) {
    if (tokens_.is_symbol(")")) return list(line, ")");
    ExpressionPtr inner = expression();
    if (!tokens_.accept_symbol(",")) {
      tokens_.expect_symbol(")");
      return inner;
    }
    ExpressionPtr tuple = list(line, ")");  // a tuple is a list to us
    tuple->height = std::max(tuple->height, inner->height + 1);
    tuple->children.insert(tuple->children.begin(), std::move(inner));
    return tuple;
  }

  ExpressionPtr list(int line, std::string_view close) {
    auto node = make(Node::kList, line);
    while (!tokens_.accept_symbol(close)) {
      adopt(*node, expression());
      if (!tokens_.is_symbol(close)) tokens_.expect_symbol(",");
    }
    return node;
  }

  ExpressionPtr dict(int line) {
    auto node = make(Node::kDict, line);
    while (!tokens_.accept_symbol("}")) {
      adopt(*node, expression());
      tokens_.expect_symbol(":");
      adopt(*node, expression());
      if (!tokens_.is_symbol("}")) tokens_.expect_symbol(",");
    }
    return node;
  }

  void fields(Expression& call) {  // namespace(name=value, ...)
    tokens_.expect_symbol("(");
    while (!tokens_.accept_symbol(")")) {
      std::string key = tokens_.expect_name();
      tokens_.expect_symbol("=");
      ExpressionPtr value = expression();
      call.height = std::max(call.height, value->height + 1);
      call.keywords.emplace_back(std::move(key), std::move(value));
      if (!tokens_.is_symbol(")")) tokens_.expect_symbol(",");
    }
  }

  // (argument, ...), appended to the call's children, of which the first `own` are not arguments.
  void arguments(Expression& call, const Callable& callable, std::size_t own) {
    std::size_t named = 0;
    if (tokens_.accept_symbol("(")) {
      while (!tokens_.accept_symbol(")")) {
        if (tokens_.peek().kind == Kind::kName && tokens_.is_symbol("=", 1)) {
          const std::string key = tokens_.take().text;
          tokens_.take();
          if (key != callable.keyword || call.children.size() - own + 1 != callable.keyword_position)
            fail(call.line, "'" + call.name + "' with '" + key + "=' is not supported");
          named = 1;
        } else if (named != 0) {
          tokens_.refuse("a named argument must be the last");
        }
        adopt(call, expression());
        if (!tokens_.is_symbol(")")) tokens_.expect_symbol(",");
      }
    }
    check_count(call, callable, call.children.size() - own - named);
  }

  static void check_count(const Expression& call, const Callable& callable, std::size_t count) {
    if (count < callable.least || count > callable.most)
      fail(call.line, "'" + call.name + "' with " + std::to_string(count) + " arguments is not supported");
  }

  ExpressionPtr postfix(ExpressionPtr value) {
    while (true) {
      if (tokens_.accept_symbol("."))
        value = attribute(std::move(value));
      else if (tokens_.accept_symbol("["))
        value = subscript(std::move(value));
      else if (tokens_.accept_symbol("|"))
        value = filter(std::move(value));
      else if (tokens_.accept_word("is"))
        value = test(std::move(value));
      else
        return value;
    }
  }

  ExpressionPtr attribute(ExpressionPtr object) {
    const int line = tokens_.peek().line;
    std::string key = tokens_.expect_name();
    const bool call = tokens_.is_symbol("(");
    const Callable* method = find_method(key);
    if (call && method == nullptr) fail(line, "the method '" + key + "' is not supported");
    auto node = make(call ? Node::kMethod : Node::kAttribute, line, std::move(key));
    adopt(*node, std::move(object));
    if (call) arguments(*node, *method, 1);
    return node;
  }

  ExpressionPtr subscript(ExpressionPtr object) {
    auto node = make(Node::kItem, tokens_.peek().line);
    adopt(*node, std::move(object));
    const auto part = [&] {
      return tokens_.is_symbol(":") || tokens_.is_symbol("]") ? nullptr : expression();
    };
    adopt(*node, part());
    while (tokens_.accept_symbol(":")) {
      node->kind = Node::kSlice;
      if (node->children.size() > 3) tokens_.refuse("a slice has three parts");
      adopt(*node, part());
    }
    tokens_.expect_symbol("]");
    if (node->kind == Node::kItem && node->children[1] == nullptr) tokens_.refuse("expected an index");
    if (node->kind == Node::kSlice) node->children.resize(4);
    return node;
  }

  ExpressionPtr filter(ExpressionPtr value) {
    const int line = tokens_.peek().line;
    std::string word = tokens_.expect_name();
    const Callable* known = find_filter(word);
    if (known == nullptr) fail(line, "the filter '" + word + "' is not supported");
    auto node = make(Node::kFilter, line, std::move(word));
    adopt(*node, std::move(value));
    arguments(*node, *known, 1);
    return node;
  }

  ExpressionPtr test(ExpressionPtr value) {
    const bool negated = tokens_.accept_word("not");
    const int line = tokens_.peek().line;
    std::string word = tokens_.expect_name();
    const Callable* known = find_test(word);
    if (known == nullptr) fail(line, "the test '" + word + "' is not supported");
    auto node = make(Node::kTest, line, std::move(word));
    adopt(*node, std::move(value));
    if (tokens_.is_symbol("(") || known->most == 0) {
      arguments(*node, *known, 1);
    } else {  // `is divisibleby 3`
      const Nested nested(tokens_);
      adopt(*node, primary());
    }
    return negated ? unary("not", std::move(node)) : std::move(node);
  }

  TokenStream& tokens_;
};

}  // namespace

ExpressionPtr parse_expression(TokenStream& tokens) { return Parser(tokens).expression(); }
ExpressionPtr parse_without_condition(TokenStream& tokens) { return Parser(tokens).disjunction(); }

}  // namespace lynx::jinja
