#include "common/text/template_evaluator.h"

#include <functional>
#include <map>
#include <utility>

#include "common/text/template_error.h"
#include "common/text/template_functions.h"
#include "common/text/template_values.h"

namespace lynx::jinja {
namespace {

constexpr std::size_t kMaxOutputBytes = 16 << 20;
constexpr std::size_t kMaxSteps = 500'000;  // one for a statement or an expression, and for what it copies
constexpr std::size_t kCopiedBytesOfStep = 1024;
constexpr int kMaxValueDepth = 200;  // of lists in lists

class Evaluator {
 public:
  explicit Evaluator(const Value& globals) : scopes_(1) {
    for (const auto& [name, value] : globals.items()) scopes_[0].emplace(name, value);
  }

  std::string run(const Body& body) {
    execute(body);
    return std::move(out_);
  }

 private:
  using Scope = std::map<std::string, Value, std::less<>>;

  void count(int line, std::size_t steps = 1) {
    steps_ += steps;
    if (steps_ > kMaxSteps) fail(line, "the template runs too long");
  }

  static std::size_t bytes_of(const Value& value, int line, int depth = 0) {
    if (depth > kMaxValueDepth) fail(line, "a value is nested too deeply");
    if (value.is_string()) return value.get_ref<const std::string&>().size();
    std::size_t bytes = sizeof(Value);
    if (value.is_structured())
      for (const auto& [key, item] : value.items()) bytes += key.size() + bytes_of(item, line, depth + 1);
    return bytes;
  }

  void count_copy(const Value& value, int line) { count(line, bytes_of(value, line) / kCopiedBytesOfStep); }

  // --- statements

  void emit(const std::string& text, int line) {
    if (out_.size() + text.size() > kMaxOutputBytes) fail(line, "the output is too long");
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
      if (branch.condition == nullptr || is_true(*branch.condition)) return execute(branch.body);
  }

  static void bind(const Statement& s, const Value& item, Scope& scope) {
    if (s.names.size() == 1) {
      scope[s.names[0]] = item;
      return;
    }
    if (!item.is_array() || item.size() != s.names.size()) fail(s.line, "cannot unpack the loop's value");
    for (std::size_t i = 0; i < s.names.size(); ++i) scope[s.names[i]] = item[i];
  }

  Value items_of(const Statement& s) {
    Value items = list_of(value_of(*s.expression), s.line);
    if (s.filter == nullptr) return items;
    Value wanted = Value::array();
    for (Value& item : items) {
      bind(s, item, scopes_.emplace_back());
      if (is_true(*s.filter)) wanted.push_back(std::move(item));
      scopes_.pop_back();
    }
    return wanted;
  }

  static Value loop_of(const Value& items, std::size_t i) {
    const std::size_t size = items.size();
    Value loop = {{"index", i + 1},           {"index0", i},    {"first", i == 0},
                  {"last", i + 1 == size},    {"length", size}, {"revindex", size - i},
                  {"revindex0", size - i - 1}};
    if (i > 0) loop["previtem"] = items[i - 1];
    if (i + 1 < size) loop["nextitem"] = items[i + 1];
    return loop;
  }

  void run_for(const Statement& s) {
    const Value items = items_of(s);
    if (items.empty() && s.branches.size() > 1) return execute(s.branches[1].body);
    for (std::size_t i = 0; i < items.size(); ++i) {
      count(s.line);
      Scope scope;
      bind(s, items[i], scope);
      scope["loop"] = loop_of(items, i);
      count_copy(scope["loop"], s.line);
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
    if (space == nullptr || !space->is_object()) fail(s.line, "'" + s.names[0] + "' is no namespace");
    (*space)[s.names[1]] = std::move(value);
  }

  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    return nullptr;
  }

  // --- expressions

  // The value of e: where it stands when e names it or a part of it, else computed into room. Copying all
  // messages for each look at one of them would make a long chat quadratic.
  const Value& look(const Expression& e, Value& room) {
    switch (e.kind) {
      case Expression::Kind::kLiteral:
        count(e.line);
        return e.value;
      case Expression::Kind::kName: {
        count(e.line);
        const Value* found = find(e.name);
        return found == nullptr ? undefined_ : *found;
      }
      case Expression::Kind::kAttribute:
        return part(e, e.name, room);
      case Expression::Kind::kItem: {
        const Value key = value_of(*e.children[1]);
        return part(e, key, room);
      }
      case Expression::Kind::kList:
      case Expression::Kind::kDict:
      case Expression::Kind::kSlice:
      case Expression::Kind::kCall:
      case Expression::Kind::kMethod:
      case Expression::Kind::kFilter:
      case Expression::Kind::kTest:
      case Expression::Kind::kUnary:
      case Expression::Kind::kBinary:
      case Expression::Kind::kConditional:
        break;
    }
    return room = computed(e);
  }

  const Value& part(const Expression& e, const Value& key, Value& room) {
    count(e.line);
    const Value& object = look(*e.children[0], room);
    // Reaching into an undefined value is an error, as in Jinja; the undefined value itself is not.
    if (object.is_discarded()) fail(e.line, "'" + e.children[0]->name + "' is undefined");
    if (const Value* found = find_part(object, key)) return *found;
    Value made = part_of(object, key, e.line);  // first, because object may stand in room
    return room = std::move(made);
  }

  Value value_of(const Expression& e) {
    Value room;
    const Value& value = look(e, room);
    count_copy(value, e.line);
    if (&value == &room) return room;
    return value;
  }

  bool is_true(const Expression& e) {
    Value room;
    return truth(look(e, room));
  }

  Value computed(const Expression& e) {
    count(e.line);
    using Kind = Expression::Kind;
    switch (e.kind) {
      case Kind::kList:
        return Value(values_of(e));
      case Kind::kDict:
        return dict_of(e);
      case Kind::kSlice: {
        const std::vector<Value> v = values_of(e);
        return slice_of(v[0], v[1], v[2], v[3], e.line);
      }
      case Kind::kCall:
        return call(e);
      case Kind::kMethod:
        return apply_method(e.name, values_of(e), e.line);
      case Kind::kFilter:
        return filter(e);
      case Kind::kTest:
        return test(e);
      case Kind::kUnary:
        return unary(e);
      case Kind::kBinary:
        return binary(e);
      case Kind::kConditional:
        if (is_true(*e.children[1])) return value_of(*e.children[0]);
        return e.children[2] == nullptr ? undefined() : value_of(*e.children[2]);
      case Kind::kLiteral:
      case Kind::kName:
      case Kind::kAttribute:
      case Kind::kItem:
        break;  // look has seen to them
    }
    return undefined();
  }

  std::vector<Value> values_of(const Expression& e) {
    std::vector<Value> out;
    out.reserve(e.children.size());
    for (const auto& child : e.children) out.push_back(child == nullptr ? Value(nullptr) : value_of(*child));
    return out;
  }

  Value dict_of(const Expression& e) {
    Value out = Value::object();
    const std::vector<Value> values = values_of(e);
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) out[text_of(values[i], e.line)] = values[i + 1];
    return out;
  }

  Value call(const Expression& e) {
    const std::vector<Value> arguments = values_of(e);
    if (e.name == "range") return make_range(arguments, e.line);
    if (e.name == "raise_exception") throw Raised{arguments.empty() ? "" : text_of(arguments[0], e.line)};
    Value space = Value::object();  // namespace(name=value, ...)
    for (const auto& [name, expression] : e.keywords) space[name] = value_of(*expression);
    return space;
  }

  Value filter(const Expression& e) {
    if (e.name != "length" && e.name != "count") return apply_filter(e.name, values_of(e), e.line);
    Value room;
    return length_of(look(*e.children[0], room), e.line);
  }

  Value test(const Expression& e) {
    Value room, argument_room;
    const Value& value = look(*e.children[0], room);
    const Value& argument = e.children.size() > 1 ? look(*e.children[1], argument_room) : argument_room;
    return apply_test(e.name, value, argument, e.line);
  }

  Value unary(const Expression& e) {
    if (e.name == "not") return !is_true(*e.children[0]);
    return apply_binary(e.name, 0, value_of(*e.children[0]), e.line);
  }

  Value binary(const Expression& e) {
    if (e.name == "and" || e.name == "or") {
      Value left = value_of(*e.children[0]);
      return truth(left) == (e.name == "or") ? left : value_of(*e.children[1]);
    }
    Value left_room, right_room;
    const Value& left = look(*e.children[0], left_room);
    return apply_binary(e.name, left, look(*e.children[1], right_room), e.line);
  }

  const Value undefined_ = undefined();
  std::vector<Scope> scopes_;
  std::string out_;
  std::size_t steps_ = 0;
};

}  // namespace

std::string evaluate(const Body& body, const Value& globals) { return Evaluator(globals).run(body); }

}  // namespace lynx::jinja
