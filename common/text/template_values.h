// Values of the template language: truth, text, and the filters, tests, methods and functions of the
// supported subset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/template_ast.h"

namespace lynx::jinja {

using Values = std::vector<Value>;
using Keywords = std::vector<std::pair<std::string, Value>>;

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
bool is_method(std::string_view name);
bool is_function(std::string_view name);  // raise_exception, namespace, range

bool truth(const Value& value);
std::int64_t length_of(const Value& value, int line);  // characters, items or keys
std::string text_of(const Value& value, int line);     // as {{ }} prints it; lists and dicts are refused
Value attribute_of(const Value& object, const std::string& name);
Value item_of(const Value& object, const Value& index, int line);
Value slice_of(const Value& object, const Value& start, const Value& stop, const Value& step, int line);
Value apply_binary(const std::string& op, const Value& left, const Value& right, int line);

// arguments[0] is the value itself. Throw TemplateError with the line when the arguments do not fit.
Value apply_filter(const std::string& name, const Values& arguments, const Keywords& keywords, int line);
bool apply_test(const std::string& name, const Values& arguments, int line);
Value apply_method(const std::string& name, const Values& arguments, int line);
Value make_range(const Values& arguments, int line);

}  // namespace lynx::jinja
