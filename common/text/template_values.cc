#include "common/text/template_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/text/template_error.h"
#include "common/text/template_text.h"

namespace lynx::jinja {
namespace {

constexpr double kMaxInteger = 9e15;  // exact in a double

bool is_numeric(const Value& value) { return value.is_number() || value.is_boolean(); }

double number_of(const Value& value) {
  return value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>();
}

std::string one_json(const Value& value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

void dump(const Value& value, int indent, int depth, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += one_json(value);
    return;
  }
  const auto new_line = [&](int levels) {
    if (indent < 0) return;
    out.append(1, '\n').append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(levels), ' ');
  };
  const bool list = value.is_array();
  out += list ? '[' : '{';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!std::exchange(first, false)) out += indent >= 0 ? "," : ", ";
    new_line(depth + 1);
    if (!list) out += one_json(key) + ": ";
    dump(item, indent, depth + 1, out);
  }
  new_line(depth);
  out += list ? ']' : '}';
}

Value arithmetic(const std::string& op, const Value& left, const Value& right, int line) {
  if (!is_numeric(left) || !is_numeric(right))
    fail(line, "'" + op + "' between " + left.type_name() + " and " + right.type_name());
  const double a = number_of(left), b = number_of(right);
  if ((op == "/" || op == "//" || op == "%") && b == 0) fail(line, "division by zero");
  if (op == "/") return a / b;
  double result = 0;
  if (op == "+") result = a + b;
  if (op == "-") result = a - b;
  if (op == "*") result = a * b;
  if (op == "//") result = std::floor(a / b);
  if (op == "%") result = a - b * std::floor(a / b);
  if (left.is_number_float() || right.is_number_float()) return result;
  if (!(std::abs(result) <= kMaxInteger)) fail(line, "a number is too large");
  return static_cast<std::int64_t>(result);
}

bool less(const Value& left, const Value& right, int line) {
  if (is_numeric(left) && is_numeric(right)) return number_of(left) < number_of(right);
  if (left.is_string() && right.is_string()) return as_text(left, line) < as_text(right, line);
  fail(line, std::string("cannot order ") + left.type_name() + " and " + right.type_name());
}

Value joined(const Value& left, const Value& right, int line) {
  if (left.size() + right.size() > kMaxItems) fail(line, "a list is too long");
  Value out = left;
  out.insert(out.end(), right.begin(), right.end());
  return out;
}

}  // namespace

const std::string& as_text(const Value& value, int line) {
  if (!value.is_string()) fail(line, std::string("expected a string, got ") + value.type_name());
  return value.get_ref<const std::string&>();
}

std::int64_t as_integer(const Value& value, int line) {
  if (!value.is_number_integer() || std::abs(value.get<double>()) > kMaxInteger)
    fail(line, std::string("expected a whole number, got ") + value.type_name());
  return value.get<std::int64_t>();
}

bool truth(const Value& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (is_numeric(value)) return number_of(value) != 0;
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

std::int64_t length_of(const Value& value, int line) {
  if (value.is_discarded()) return 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  }
  if (value.is_structured()) return static_cast<std::int64_t>(value.size());
  fail(line, std::string("length of ") + value.type_name());
}

Value list_of(const Value& value, int line) {
  if (value.is_array()) return value;
  Value out = Value::array();
  if (value.is_discarded()) return out;
  if (value.is_string()) {
    for (const std::string_view c : characters_of(value.get_ref<const std::string&>(), line))
      out.push_back(c);
    return out;
  }
  if (!value.is_object()) fail(line, std::string("expected a list, got ") + value.type_name());
  for (const auto& [key, item] : value.items()) out.push_back(key);
  return out;
}

std::string json_of(const Value& value, int indent) {
  std::string out;
  dump(value, indent, 0, out);
  return out;
}

const Value* find_part(const Value& object, const Value& key) {
  if (object.is_object()) {
    if (!key.is_string()) return nullptr;
    const auto found = object.find(key.get_ref<const std::string&>());
    return found == object.end() ? nullptr : &*found;
  }
  if (!object.is_array() || !key.is_number_integer()) return nullptr;
  const auto size = static_cast<std::int64_t>(object.size());
  const auto index = key.get<std::int64_t>();
  const std::int64_t at = index < 0 ? index + size : index;
  return at >= 0 && at < size ? &object[static_cast<std::size_t>(at)] : nullptr;
}

Value part_of(const Value& object, const Value& key, int line) {
  if (const Value* found = find_part(object, key)) return *found;
  if (!object.is_string() || !key.is_number_integer()) return undefined();
  return part_of(list_of(object, line), key, line);
}

Value slice_of(const Value& object, const Value& start, const Value& stop, const Value& step, int line) {
  const Value list = list_of(object, line);
  const auto size = static_cast<std::int64_t>(list.size());
  const std::int64_t by = step.is_null() ? 1 : as_integer(step, line);
  if (by == 0) fail(line, "a slice of step 0");
  const auto bound = [&](const Value& value, std::int64_t otherwise) {
    if (value.is_null()) return otherwise;
    const std::int64_t at = as_integer(value, line);  // as Python: a negative one counts from the end
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, by > 0 ? 0 : -1, by > 0 ? size : size - 1);
  };
  const std::int64_t first = bound(start, by > 0 ? 0 : size - 1), last = bound(stop, by > 0 ? size : -1);
  Value out = Value::array();
  for (std::int64_t i = first; by > 0 ? i < last : i > last; i += by)
    out.push_back(list[static_cast<std::size_t>(i)]);
  if (!object.is_string()) return out;
  std::string text;
  for (const Value& character : out) text += character.get_ref<const std::string&>();
  return text;
}

bool equal(const Value& left, const Value& right) {
  if (left.is_discarded() || right.is_discarded()) return left.is_discarded() && right.is_discarded();
  if (is_numeric(left) && is_numeric(right)) return number_of(left) == number_of(right);
  if (left.is_object() && right.is_object()) {  // in any order
    if (left.size() != right.size()) return false;
    for (const auto& [key, item] : left.items()) {
      const Value* other = find_part(right, key);
      if (other == nullptr || !equal(item, *other)) return false;
    }
    return true;
  }
  if (left.is_array() && right.is_array())
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
  return left == right;
}

bool contains(const Value& container, const Value& item, int line) {
  if (container.is_discarded()) return false;
  if (container.is_string())
    return container.get_ref<const std::string&>().find(as_text(item, line)) != std::string::npos;
  if (container.is_object()) return find_part(container, item) != nullptr;
  if (!container.is_array()) fail(line, std::string("'in' ") + container.type_name());
  return std::any_of(container.begin(), container.end(), [&](const Value& one) { return equal(one, item); });
}

Value apply_binary(const std::string& op, const Value& left, const Value& right, int line) {
  if (op == "==") return equal(left, right);
  if (op == "!=") return !equal(left, right);
  if (op == "<") return less(left, right, line);
  if (op == ">") return less(right, left, line);
  if (op == "<=") return !less(right, left, line);
  if (op == ">=") return !less(left, right, line);
  if (op == "in") return contains(right, left, line);
  if (op == "~") return concatenate(text_of(left, line), text_of(right, line), line);
  if (op == "+" && left.is_string()) return concatenate(as_text(left, line), as_text(right, line), line);
  if (op == "+" && left.is_array() && right.is_array()) return joined(left, right, line);
  return arithmetic(op, left, right, line);
}

}  // namespace lynx::jinja
