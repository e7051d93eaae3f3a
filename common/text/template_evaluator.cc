#include "common/text/template_evaluator.h"

#include "common/text/template_lexer.h"
#include "common/text/template_values.h"

namespace lynx::jinja {
namespace {

constexpr std::size_t kMaxOutputBytes = 16 << 20;
constexpr std::size_t kMaxSteps = 300'000;  // statements and expressions

class Evaluator {
 public:
  explicit Evaluator(Value globals) { scopes_.push_back(std::move(globals)); }

  std::string run(const Body& body) {
    execute(body);
    return std::move(out_);
  }

 private:
  void count(int line) {
    if (++steps_ > kMaxSteps) throw TemplateError(line, "the template runs too long");
  }

  void emit(const std::string& text, int line) {
    if (out_.size() + text.size() > kMaxOutputBytes) throw TemplateError(line, "the output is too long");
    out_ += text;
  }

  void execute(const Body& body) {
    for (const auto& statement : body) execute(*statement);
  }

  void execute(const Statement& s) {
    count(s.line);
    switch (s.kind) {
      case Statement::Kind::kText:
        return emit(s.text, s.line);
      case Statement::Kind::kOutput:
        return emit(text_of(value_of(*s.expression), s.line), s.line);
      case Statement::Kind::kIf:
        return run_if(s);
      case Statement::Kind::kFor:
        return run_for(s);
      case Statement::Kind::kSet:
        return run_set(s);
    }
  }

  void run_if(const Statement& s) {
    for (const Branch& branch : s.branches)
      if (branch.condition == nullptr || truth(value_of(*branch.condition))) return execute(branch.body);
  }

  void bind(const Statement& s, const Value& item, Value& scope) const {
    if (s.names.size() == 1) {
      scope[s.names[0]] = item;
      return;
    }
    if (!item.is_array() || item.size() != s.names.size())
      throw TemplateError(s.line, "cannot unpack the loop's value");
    for (std::size_t i = 0; i < s.names.size(); ++i) scope[s.names[i]] = item[i];
  }

  std::vector<Value> items_of(const Statement& s) {
    const Value source = value_of(*s.expression);
    if (source.is_discarded()) throw TemplateError(s.line, "the loop's value is undefined");
    std::vector<Value> items;
    for (const Value& item : apply_filter("list", {source}, {}, s.line)) {
      if (s.filter != nullptr) {
        scopes_.push_back(Value::object());
        bind(s, item, scopes_.back());
        const bool wanted = truth(value_of(*s.filter));
        scopes_.pop_back();
        if (!wanted) continue;
      }
      items.push_back(item);
    }
    return items;
  }

  void run_for(const Statement& s) {
    const std::vector<Value> items = items_of(s);
    if (items.empty() && s.branches.size() > 1) return execute(s.branches[1].body);
    const auto size = static_cast<std::int64_t>(items.size());
    for (std::int64_t i = 0; i < size; ++i) {
      count(s.line);
      Value scope = Value::object();
      bind(s, items[static_cast<std::size_t>(i)], scope);
      scope["loop"] = {{"index", i + 1},           {"index0", i},    {"first", i == 0},
                       {"last", i + 1 == size},    {"length", size}, {"revindex", size - i},
                       {"revindex0", size - i - 1}};
      if (i > 0) scope["loop"]["previtem"] = items[static_cast<std::size_t>(i - 1)];
      if (i + 1 < size) scope["loop"]["nextitem"] = items[static_cast<std::size_t>(i + 1)];
      scopes_.push_back(std::move(scope));
      execute(s.branches[0].body);
      scopes_.pop_back();
    }
  }

  void run_set(const Statement& s) {
    Value value = value_of(*s.expression);
    if (s.names.size() == 1) {
      scopes_.back()[s.names[0]] = std::move(value);
      return;
    }
    Value* space = find(s.names[0]);
    if (space == nullptr || !space->is_object())
      throw TemplateError(s.line, "'" + s.names[0] + "' is no namespace");
    (*space)[s.names[1]] = std::move(value);
  }

  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (scope->contains(name)) return &(*scope)[name];
    return nullptr;
  }

  Values values_of(const Expression& e) {
    Values out;
    out.reserve(e.children.size());
    for (const auto& child : e.children) out.push_back(child == nullptr ? Value(nullptr) : value_of(*child));
    return out;
  }

  Keywords keywords_of(const Expression& e) {
    Keywords out;
    for (const auto& [name, expression] : e.keywords) out.emplace_back(name, value_of(*expression));
    return out;
  }

  Value value_of(const Expression& e) {
    using Kind = Expression::Kind;
    count(e.line);
    switch (e.kind) {
      case Kind::kLiteral:
        return e.value;
      case Kind::kName: {
        const Value* found = find(e.name);
        return found == nullptr ? undefined() : *found;
      }
      case Kind::kList:
        return list_of(e);
      case Kind::kDict:
        return dict_of(e);
      case Kind::kAttribute:
        return attribute(e);
      case Kind::kItem:
        return item(e);
      case Kind::kSlice: {
        const Values v = values_of(e);
        return slice_of(v[0], v[1], v[2], v[3], e.line);
      }
      case Kind::kCall:
        return call(e);
      case Kind::kMethod:
        return method(e);
      case Kind::kFilter:
        return filter(e);
      case Kind::kTest:
        return apply_test(e.name, values_of(e), e.line);
      case Kind::kUnary:
        return unary(e);
      case Kind::kBinary:
        return binary(e);
      case Kind::kConditional: {
        if (truth(value_of(*e.children[1]))) return value_of(*e.children[0]);
        return e.children[2] == nullptr ? undefined() : value_of(*e.children[2]);
      }
    }
    return undefined();
  }

  // Reaching into an undefined value is an error, as in Jinja; the undefined value itself is not.
  Value defined(const Expression& e) {
    Value value = value_of(e);
    if (value.is_discarded()) throw TemplateError(e.line, "'" + e.name + "' is undefined");
    return value;
  }

  Value attribute(const Expression& e) {
    if (const Value* object = existing(*e.children[0])) return attribute_of(*object, e.name);
    return attribute_of(defined(*e.children[0]), e.name);
  }

  Value item(const Expression& e) {
    const Value index = value_of(*e.children[1]);
    if (const Value* object = existing(*e.children[0])) return item_of(*object, index, e.line);
    return item_of(defined(*e.children[0]), index, e.line);
  }

  Value filter(const Expression& e) {
    if (e.name == "length" || e.name == "count")
      if (const Value* value = existing(*e.children[0])) return length_of(*value, e.line);
    return apply_filter(e.name, values_of(e), keywords_of(e), e.line);
  }

  // The value where it stands, when the expression names one: a copy of all messages for each look at one of
  // them would make a long chat quadratic.
  const Value* existing(const Expression& e) {
    if (e.kind == Expression::Kind::kName) return find(e.name);
    if (e.kind != Expression::Kind::kAttribute && e.kind != Expression::Kind::kItem) return nullptr;
    const Value* object = existing(*e.children[0]);
    if (object == nullptr) return nullptr;
    const Value key = e.kind == Expression::Kind::kAttribute ? Value(e.name) : value_of(*e.children[1]);
    if (object->is_object() && key.is_string() && object->contains(key.get_ref<const std::string&>()))
      return &(*object)[key.get_ref<const std::string&>()];
    if (!object->is_array() || !key.is_number_integer()) return nullptr;
    const auto size = static_cast<std::int64_t>(object->size());
    const std::int64_t at = key.get<std::int64_t>() + (key.get<std::int64_t>() < 0 ? size : 0);
    return at >= 0 && at < size ? &(*object)[static_cast<std::size_t>(at)] : nullptr;
  }

  Value list_of(const Expression& e) {
    Value out = Value::array();
    for (Value& value : values_of(e)) out.push_back(std::move(value));
    return out;
  }

  Value dict_of(const Expression& e) {
    Value out = Value::object();
    const Values values = values_of(e);
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) out[text_of(values[i], e.line)] = values[i + 1];
    return out;
  }

  Value call(const Expression& e) {
    const Values arguments = values_of(e);
    if (e.name == "range") return make_range(arguments, e.line);
    if (e.name == "raise_exception") throw Raised{arguments.empty() ? "" : text_of(arguments[0], e.line)};
    Value space = Value::object();  // namespace(name=value, ...)
    for (auto& [name, value] : keywords_of(e)) space[name] = std::move(value);
    return space;
  }

  Value method(const Expression& e) {
    if (!e.keywords.empty()) throw TemplateError(e.line, "'" + e.name + "' takes no keywords");
    return apply_method(e.name, values_of(e), e.line);
  }

  Value unary(const Expression& e) {
    const Value value = value_of(*e.children[0]);
    if (e.name == "not") return !truth(value);
    return apply_binary(e.name, 0, value, e.line);
  }

  Value binary(const Expression& e) {
    Value left = value_of(*e.children[0]);
    if (e.name == "and") return truth(left) ? value_of(*e.children[1]) : left;
    if (e.name == "or") return truth(left) ? left : value_of(*e.children[1]);
    return apply_binary(e.name, left, value_of(*e.children[1]), e.line);
  }

  std::vector<Value> scopes_;
  std::string out_;
  std::size_t steps_ = 0;
};

}  // namespace

std::string evaluate(const Body& body, Value globals) { return Evaluator(std::move(globals)).run(body); }

}  // namespace lynx::jinja
