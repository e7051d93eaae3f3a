// The filters, tests, methods and functions of the subset. The arguments of filters and methods begin with
// the value itself. The parser has checked the names and how many arguments there are; they throw
// TemplateError when the kinds of values do not fit.
#pragma once

#include <string>
#include <vector>

#include "common/text/template_ast.h"

namespace lynx::jinja {

using Values = std::vector<Value>;

Value apply_filter(const std::string& name, const Values& arguments, int line);
bool apply_test(const std::string& name, const Value& value, const Value& argument, int line);
Value apply_method(const std::string& name, const Values& arguments, int line);
Value make_range(const Values& arguments, int line);

}  // namespace lynx::jinja
