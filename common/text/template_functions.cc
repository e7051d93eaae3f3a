#include "common/text/template_functions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "common/text/template_error.h"
#include "common/text/template_names.h"
#include "common/text/template_text.h"
#include "common/text/template_values.h"

namespace lynx::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;
constexpr std::int64_t kMaxIndent = 16;

Value list_of_texts(const std::vector<std::string_view>& texts) {
  Value out = Value::array();
  for (const std::string_view text : texts) out.push_back(text);
  return out;
}

std::optional<std::string_view> optional_text(const Values& arguments, std::size_t i, int line) {
  if (i >= arguments.size() || arguments[i].is_null()) return std::nullopt;
  return as_text(arguments[i], line);
}

std::int64_t count_of(const Values& arguments, std::size_t i, int line) {  // -1: no limit
  return i < arguments.size() ? as_integer(arguments[i], line) : -1;
}

Value pairs_of(const Value& value, int line) {
  if (!value.is_object()) fail(line, "items: expected an object");
  Value out = Value::array();
  for (const auto& [key, item] : value.items()) out.push_back(Value::array({key, item}));
  return out;
}

Value keys_of(const Value& value, int line) {
  if (!value.is_object()) fail(line, "keys: expected an object");
  return list_of(value, line);
}

Value values_of(const Value& value, int line) {
  if (!value.is_object()) fail(line, "values: expected an object");
  Value out = Value::array();
  for (const auto& [key, item] : value.items()) out.push_back(item);
  return out;
}

std::string join(const Value& value, const std::string& by, int line) {
  const Value list = list_of(value, line);
  std::string out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string text = text_of(list[i], line);
    if (out.size() + by.size() + text.size() > kMaxTextBytes) fail(line, "a text is too long");
    if (i > 0) out += by;
    out += text;
  }
  return out;
}

Value defaulted(const Values& arguments) {
  const bool falsy_too = arguments.size() > 2 && truth(arguments[2]);
  const bool missing = arguments[0].is_discarded() || (falsy_too && !truth(arguments[0]));
  if (!missing) return arguments[0];
  return arguments.size() > 1 ? arguments[1] : Value("");
}

// selectattr(name) or selectattr(name, test, argument): the items whose attribute passes.
Value select(const Values& arguments, bool wanted, int line) {
  const std::string test = arguments.size() > 2 ? as_text(arguments[2], line) : std::string();
  const Callable* known = find_test(test == "==" ? "eq" : test);
  if (!test.empty() && (known == nullptr || known->most + 3 != arguments.size()))
    fail(line, "the test '" + test + "' is not supported here");
  Value out = Value::array();
  for (const Value& item : list_of(arguments[0], line)) {
    const Value attribute = part_of(item, arguments[1], line);
    const bool passes = known == nullptr ? truth(attribute)
                                         : apply_test(std::string(known->name), attribute,
                                                      arguments.size() > 3 ? arguments[3] : Value(), line);
    if (passes == wanted) out.push_back(item);
  }
  return out;
}

Value attributes_of(const Values& arguments, int line) {  // map(attribute=name)
  if (arguments.size() != 2) fail(line, "map is supported with attribute= alone");
  Value out = Value::array();
  for (const Value& item : list_of(arguments[0], line)) out.push_back(part_of(item, arguments[1], line));
  return out;
}

Value json_filter(const Values& arguments, int line) {
  if (arguments[0].is_discarded()) fail(line, "tojson of an undefined value");
  const std::int64_t indent =
      arguments.size() > 1 && !arguments[1].is_null() ? as_integer(arguments[1], line) : -1;
  return json_of(arguments[0], static_cast<int>(std::clamp<std::int64_t>(indent, -1, kMaxIndent)));
}

bool starts_or_ends(const std::string& text, const Value& part, bool starts, int line) {
  if (part.is_array())  // any of them
    return std::any_of(part.begin(), part.end(), [&](const Value& one) {
      return starts_or_ends(text, as_text(one, line), starts, line);
    });
  return starts ? text.starts_with(as_text(part, line)) : text.ends_with(as_text(part, line));
}

Value text_method(const std::string& name, const Values& arguments, int line) {
  const std::string& text = as_text(arguments[0], line);
  if (name == "upper") return change_case(text, Case::kUpper);
  if (name == "lower") return change_case(text, Case::kLower);
  if (name == "capitalize") return capitalize(text);
  if (name == "strip") return strip(text, optional_text(arguments, 1, line), Side::kBoth);
  if (name == "lstrip") return strip(text, optional_text(arguments, 1, line), Side::kLeft);
  if (name == "rstrip") return strip(text, optional_text(arguments, 1, line), Side::kRight);
  if (name == "startswith" || name == "endswith")
    return starts_or_ends(text, arguments[1], name == "startswith", line);
  if (name == "join") return join(arguments[1], text, line);
  if (name == "replace")
    return replace(text, as_text(arguments[1], line), as_text(arguments[2], line),
                   count_of(arguments, 3, line), line);
  return list_of_texts(split(text, optional_text(arguments, 1, line), count_of(arguments, 2, line), line));
}

bool remainder_is(const Value& value, const Value& by, std::int64_t remainder, int line) {
  const std::int64_t divisor = as_integer(by, line);
  if (divisor == 0) fail(line, "division by zero");
  return std::abs(as_integer(value, line) % divisor) == remainder;
}

}  // namespace

Value apply_filter(const std::string& name, const Values& arguments, int line) {
  const Value& value = arguments[0];
  if (name == "default" || name == "d") return defaulted(arguments);
  if (name == "length" || name == "count") return length_of(value, line);
  if (name == "first") return part_of(list_of(value, line), 0, line);
  if (name == "last") return part_of(list_of(value, line), -1, line);
  if (name == "list") return list_of(value, line);
  if (name == "reverse") return slice_of(value, nullptr, nullptr, -1, line);
  if (name == "items") return value.is_discarded() ? Value::array() : pairs_of(value, line);
  if (name == "string" || name == "safe") return text_of(value, line);
  if (name == "join") return join(value, arguments.size() > 1 ? as_text(arguments[1], line) : "", line);
  if (name == "tojson") return json_filter(arguments, line);
  if (name == "selectattr" || name == "rejectattr") return select(arguments, name == "selectattr", line);
  if (name == "map") return attributes_of(arguments, line);
  Values texts = arguments;  // trim, upper, lower, capitalize, replace
  texts[0] = text_of(value, line);
  return text_method(name == "trim" ? "strip" : name, texts, line);
}

bool apply_test(const std::string& name, const Value& value, const Value& argument, int line) {
  if (name == "defined") return !value.is_discarded();
  if (name == "undefined") return value.is_discarded();
  if (name == "none") return value.is_null();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_object();
  if (name == "iterable" || name == "sequence")
    return value.is_string() || value.is_structured() || value.is_discarded();
  if (name == "number") return value.is_number() || value.is_boolean();
  if (name == "integer") return value.is_number_integer();
  if (name == "float") return value.is_number_float();
  if (name == "boolean") return value.is_boolean();
  if (name == "true") return value == true;
  if (name == "false") return value == false;
  if (name == "odd") return remainder_is(value, 2, 1, line);
  if (name == "even") return remainder_is(value, 2, 0, line);
  if (name == "divisibleby") return remainder_is(value, argument, 0, line);
  if (name == "in") return contains(argument, value, line);
  return equal(value, argument) == (name != "ne");  // eq, equalto, ne
}

Value apply_method(const std::string& name, const Values& arguments, int line) {
  const Value& value = arguments[0];
  if (name == "items") return pairs_of(value, line);
  if (name == "values") return values_of(value, line);
  if (name == "keys") return keys_of(value, line);
  if (name != "get") return text_method(name, arguments, line);
  if (!value.is_object()) fail(line, "get: expected an object");
  if (const Value* found = find_part(value, arguments[1])) return *found;
  return arguments.size() > 2 ? arguments[2] : Value(nullptr);
}

Value make_range(const Values& arguments, int line) {
  const auto number = [&](std::size_t i) { return as_integer(arguments[i], line); };
  const std::int64_t start = arguments.size() == 1 ? 0 : number(0);
  const std::int64_t stop = number(arguments.size() == 1 ? 0 : 1);
  const std::int64_t step = arguments.size() == 3 ? number(2) : 1;
  if (step == 0) fail(line, "range of step 0");
  Value out = Value::array();
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<std::int64_t>(out.size()) >= kMaxRange) fail(line, "range is too long");
    out.push_back(i);
  }
  return out;
}

}  // namespace lynx::jinja
