#include "common/text/template_values.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/text/template_lexer.h"
#include "common/text/utf8.h"

namespace lynx::jinja {
namespace {

constexpr std::array<std::string_view, 14> kFilters{"trim",   "length", "count",   "upper",  "lower",
                                                    "tojson", "join",   "default", "first",  "last",
                                                    "list",   "string", "items",   "replace"};
constexpr std::array<std::string_view, 13> kTests{"defined",  "undefined", "none",   "string",  "mapping",
                                                  "iterable", "sequence",  "number", "integer", "boolean",
                                                  "true",     "false",     "equalto"};
constexpr std::array<std::string_view, 11> kMethods{"strip",      "lstrip",   "rstrip", "split",
                                                    "startswith", "endswith", "upper",  "lower",
                                                    "replace",    "items",    "get"};
constexpr std::array<std::string_view, 3> kFunctions{"raise_exception", "namespace", "range"};
constexpr std::int64_t kMaxRange = 100'000;

template <typename Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::size_t kMaxTextBytes = 16 << 20;  // of any value: doubling a string must not eat the memory

[[noreturn]] void fail(int line, const std::string& what) { throw TemplateError(line, what); }

const std::string& as_text(const Value& value, int line) {
  if (!value.is_string()) fail(line, std::string("expected a string, got ") + value.type_name());
  return value.get_ref<const std::string&>();
}

void check_size(std::size_t bytes, int line) {
  if (bytes > kMaxTextBytes) fail(line, "a text is too long");
}

std::string concatenated(const std::string& left, const std::string& right, int line) {
  check_size(left.size() + right.size(), line);
  return left + right;
}

std::string strip(const std::string& text, const std::string& characters, bool left, bool right) {
  const std::size_t begin = left ? text.find_first_not_of(characters) : 0;
  if (begin == std::string::npos) return {};
  const std::size_t end = right ? text.find_last_not_of(characters) : text.size() - 1;
  return end == std::string::npos ? std::string() : text.substr(begin, end - begin + 1);
}

std::string ascii_case(std::string text, bool upper) {
  for (char& c : text) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

std::string replace_all(const std::string& text, const std::string& from, const std::string& to, int line) {
  if (from.empty()) fail(line, "replace: nothing to look for");
  std::string out;
  std::size_t at = 0;
  for (std::size_t next; (next = text.find(from, at)) != std::string::npos; at = next + from.size()) {
    out.append(text, at, next - at).append(to);
    check_size(out.size(), line);
  }
  return out.append(text, at);
}

Value split_text(const std::string& text, const Values& arguments, int line) {
  Value parts = Value::array();
  if (arguments.size() < 2 || arguments[1].is_null()) {  // runs of white space
    std::size_t at = 0;
    while ((at = text.find_first_not_of(" \t\r\n", at)) != std::string::npos) {
      const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
      parts.push_back(text.substr(at, end - at));
      at = end;
    }
    return parts;
  }
  const std::string& by = as_text(arguments[1], line);
  if (by.empty()) fail(line, "split: empty separator");
  std::size_t at = 0;
  for (std::size_t next; (next = text.find(by, at)) != std::string::npos; at = next + by.size())
    parts.push_back(text.substr(at, next - at));
  parts.push_back(text.substr(at));
  return parts;
}

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t n = utf8_step(rest).length;
    out.emplace_back(rest.substr(0, n));
    rest.remove_prefix(n);
  }
  return out;
}

Value pairs_of(const Value& value, int line) {
  if (!value.is_object()) fail(line, "items: expected an object");
  Value out = Value::array();
  for (const auto& [key, item] : value.items()) out.push_back(Value::array({key, item}));
  return out;
}

// As Python's json.dumps(ensure_ascii=False): a space after every comma and colon.
void dump(const Value& value, std::string& out) {
  if (!value.is_structured()) {
    out += value.dump(-1, ' ', false, Value::error_handler_t::replace);
    return;
  }
  const bool list = value.is_array();
  out += list ? '[' : '{';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!std::exchange(first, false)) out += ", ";
    if (!list) out += Value(key).dump(-1, ' ', false, Value::error_handler_t::replace) + ": ";
    dump(item, out);
  }
  out += list ? ']' : '}';
}

std::string joined(const Values& arguments, int line) {
  const std::string by = arguments.size() > 1 ? as_text(arguments[1], line) : std::string();
  std::string out;
  if (!arguments[0].is_array()) fail(line, "join: expected a list");
  for (std::size_t i = 0; i < arguments[0].size(); ++i) {
    out += (i == 0 ? "" : by) + text_of(arguments[0][i], line);
    check_size(out.size(), line);
  }
  return out;
}

Value end_of(const Value& value, bool first, int line) {
  if (length_of(value, line) == 0) return undefined();
  return item_of(value, first ? 0 : -1, line);
}

Value as_list(const Value& value, int line) {
  if (value.is_array()) return value;
  if (value.is_string()) return characters_of(value.get_ref<const std::string&>());
  if (!value.is_object()) fail(line, "list: expected a list");
  Value keys = Value::array();
  for (const auto& [key, item] : value.items()) keys.push_back(key);
  return keys;
}

Value arithmetic(const std::string& op, const Value& left, const Value& right, int line) {
  if (!left.is_number() || !right.is_number())
    fail(line, "'" + op + "' between " + left.type_name() + " and " + right.type_name());
  const bool whole = left.is_number_integer() && right.is_number_integer();
  const double a = left.get<double>(), b = right.get<double>();
  if ((op == "/" || op == "//" || op == "%") && b == 0) fail(line, "division by zero");
  double result = 0;
  if (op == "+")
    result = a + b;
  else if (op == "-")
    result = a - b;
  else if (op == "*")
    result = a * b;
  else if (op == "/")
    return a / b;
  else if (op == "//")
    result = std::floor(a / b);
  else
    result = a - b * std::floor(a / b);
  if (!whole) return result;
  if (std::abs(result) > 9e15) fail(line, "a number is too large");
  return static_cast<std::int64_t>(result);
}

bool less(const Value& left, const Value& right, int line) {
  const bool fits = (left.is_number() && right.is_number()) || (left.is_string() && right.is_string());
  if (!fits) fail(line, std::string("cannot order ") + left.type_name() + " and " + right.type_name());
  return left < right;
}

bool contains(const Value& container, const Value& item, int line) {
  if (container.is_string())
    return container.get_ref<const std::string&>().find(as_text(item, line)) != std::string::npos;
  if (container.is_object())
    return item.is_string() && container.contains(item.get_ref<const std::string&>());
  if (container.is_array()) return std::find(container.begin(), container.end(), item) != container.end();
  fail(line, std::string("'in' ") + container.type_name());
}

}  // namespace

bool is_filter(std::string_view name) { return among(kFilters, name); }
bool is_test(std::string_view name) { return among(kTests, name); }
bool is_method(std::string_view name) { return among(kMethods, name); }
bool is_function(std::string_view name) { return among(kFunctions, name); }

std::int64_t length_of(const Value& value, int line) {
  if (value.is_string())
    return static_cast<std::int64_t>(characters_of(value.get_ref<const std::string&>()).size());
  if (value.is_array() || value.is_object()) return static_cast<std::int64_t>(value.size());
  fail(line, std::string("length of ") + value.type_name());
}

bool truth(const Value& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

std::string text_of(const Value& value, int line) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_discarded()) return {};
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number()) return value.dump();
  fail(line, std::string("printing an ") + value.type_name() + " is not supported; use tojson");
}

Value attribute_of(const Value& object, const std::string& name) {
  return object.is_object() && object.contains(name) ? object[name] : undefined();
}

Value item_of(const Value& object, const Value& index, int line) {
  if (object.is_object())
    return index.is_string() ? attribute_of(object, index.get<std::string>()) : undefined();
  if (!index.is_number_integer()) fail(line, "an index must be a whole number");
  const std::int64_t size = length_of(object, line);
  const std::int64_t at = index.get<std::int64_t>() + (index.get<std::int64_t>() < 0 ? size : 0);
  if (at < 0 || at >= size) return undefined();
  if (object.is_string()) return characters_of(object.get<std::string>())[static_cast<std::size_t>(at)];
  return object[static_cast<std::size_t>(at)];
}

Value slice_of(const Value& object, const Value& start, const Value& stop, const Value& step, int line) {
  const std::int64_t size = length_of(object, line);
  const auto number = [&](const Value& value, std::int64_t otherwise) {
    if (value.is_null()) return otherwise;
    if (!value.is_number_integer()) fail(line, "a slice needs whole numbers");
    return value.get<std::int64_t>();
  };
  const std::int64_t by = number(step, 1);
  if (by == 0) fail(line, "a slice of step 0");
  const auto clamp = [&](std::int64_t at) {  // as Python: negative counts from the end, then into the range
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, by > 0 ? 0 : -1, by > 0 ? size : size - 1);
  };
  const std::int64_t first = start.is_null() ? (by > 0 ? 0 : size - 1) : clamp(number(start, 0));
  const std::int64_t last = stop.is_null() ? (by > 0 ? size : -1) : clamp(number(stop, 0));
  Value list = as_list(object, line), out = Value::array();
  for (std::int64_t i = first; by > 0 ? i < last : i > last; i += by)
    out.push_back(list[static_cast<std::size_t>(i)]);
  if (!object.is_string()) return out;
  std::string text;
  for (const Value& character : out) text += character.get_ref<const std::string&>();
  return text;
}

Value apply_binary(const std::string& op, const Value& left, const Value& right, int line) {
  if (op == "==") return left == right || (left.is_discarded() && right.is_discarded());
  if (op == "!=") return !(left == right || (left.is_discarded() && right.is_discarded()));
  if (op == "<") return less(left, right, line);
  if (op == ">") return less(right, left, line);
  if (op == "<=") return !less(right, left, line);
  if (op == ">=") return !less(left, right, line);
  if (op == "in") return contains(right, left, line);
  if (op == "~") return concatenated(text_of(left, line), text_of(right, line), line);
  if (op == "+" && left.is_string()) return concatenated(as_text(left, line), as_text(right, line), line);
  if (op == "+" && left.is_array() && right.is_array()) {
    Value out = left;
    out.insert(out.end(), right.begin(), right.end());
    return out;
  }
  return arithmetic(op, left, right, line);
}

Value apply_filter(const std::string& name, const Values& arguments, const Keywords& keywords, int line) {
  const Value& value = arguments[0];
  if (name == "default") {
    const bool falsy_too =
        (arguments.size() > 2 && truth(arguments[2])) ||
        std::any_of(keywords.begin(), keywords.end(), [](const auto& k) { return truth(k.second); });
    const bool missing = value.is_discarded() || (falsy_too && !truth(value));
    return missing ? (arguments.size() > 1 ? arguments[1] : Value("")) : value;
  }
  if (!keywords.empty()) fail(line, "the filter '" + name + "' takes no keyword '" + keywords[0].first + "'");
  if (value.is_discarded()) fail(line, "'" + name + "' of an undefined value");
  if (name == "length" || name == "count") return length_of(value, line);
  if (name == "first" || name == "last") return end_of(value, name == "first", line);
  if (name == "list") return as_list(value, line);
  if (name == "items") return pairs_of(value, line);
  if (name == "string") return text_of(value, line);
  if (name == "join") return joined(arguments, line);
  if (name == "tojson") {
    std::string out;
    dump(value, out);
    return out;
  }
  if (name == "trim") return strip(text_of(value, line), " \t\r\n\v\f", true, true);
  return apply_method(name, arguments, line);  // upper, lower, replace
}

bool apply_test(const std::string& name, const Values& arguments, int line) {
  const Value& value = arguments[0];
  if (name == "defined") return !value.is_discarded();
  if (name == "undefined") return value.is_discarded();
  if (name == "none") return value.is_null();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_object();
  if (name == "iterable" || name == "sequence")
    return value.is_string() || value.is_array() || value.is_object();
  if (name == "number") return value.is_number();
  if (name == "integer") return value.is_number_integer();
  if (name == "boolean") return value.is_boolean();
  if (name == "true") return value == true;
  if (name == "false") return value == false;
  if (arguments.size() != 2) fail(line, "equalto needs a value");
  return value == arguments[1];
}

Value apply_method(const std::string& name, const Values& arguments, int line) {
  const Value& value = arguments[0];
  if (name == "items") return pairs_of(value, line);
  if (name == "get") {
    if (arguments.size() < 2) fail(line, "get needs a key");
    Value found = attribute_of(value, as_text(arguments[1], line));
    if (!found.is_discarded()) return found;
    return arguments.size() > 2 ? arguments[2] : Value(nullptr);
  }
  const std::string& text = as_text(value, line);
  if (name == "upper" || name == "lower") return ascii_case(text, name == "upper");
  if (name == "split") return split_text(text, arguments, line);
  if (name == "replace") {
    if (arguments.size() != 3) fail(line, "replace needs two strings");
    return replace_all(text, as_text(arguments[1], line), as_text(arguments[2], line), line);
  }
  if (name == "startswith" || name == "endswith") {
    if (arguments.size() != 2) fail(line, name + " needs a string");
    const std::string& part = as_text(arguments[1], line);
    return name == "startswith" ? text.starts_with(part) : text.ends_with(part);
  }
  const std::string characters =
      arguments.size() > 1 ? as_text(arguments[1], line) : std::string(" \t\r\n\v\f");
  return strip(text, characters, name != "rstrip", name != "lstrip");
}

Value make_range(const Values& arguments, int line) {
  if (arguments.empty() || arguments.size() > 3) fail(line, "range needs one to three numbers");
  for (const Value& argument : arguments)
    if (!argument.is_number_integer()) fail(line, "range needs whole numbers");
  const auto number = [&](std::size_t i) { return arguments[i].get<std::int64_t>(); };
  const std::int64_t start = arguments.size() == 1 ? 0 : number(0),
                     stop = number(arguments.size() == 1 ? 0 : 1),
                     step = arguments.size() == 3 ? number(2) : 1;
  if (step == 0) fail(line, "range of step 0");
  Value out = Value::array();
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<std::int64_t>(out.size()) >= kMaxRange) fail(line, "range is too long");
    out.push_back(i);
  }
  return out;
}

}  // namespace lynx::jinja
