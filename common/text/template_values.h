// Values of the template language: truth, text, parts, and operators.
#pragma once

#include <cstdint>
#include <string>

#include "common/text/template_ast.h"

namespace lynx::jinja {

const std::string& as_text(const Value& value, int line);  // throws TemplateError when it is none
std::int64_t as_integer(const Value& value, int line);     // a whole number within 9e15, so sums are safe
bool truth(const Value& value);
std::string text_of(const Value& value, int line);  // as {{ }} prints it; lists and dicts are refused
std::int64_t length_of(const Value& value, int line);
Value list_of(const Value& value, int line);          // characters, items or keys
std::string json_of(const Value& value, int indent);  // as Python's json.dumps; indent -1: on one line

// The part of a list or dict that key names, where it stands; null when there is none.
const Value* find_part(const Value& object, const Value& key);
// The same as a value: a character of a string, too; undefined when there is none.
Value part_of(const Value& object, const Value& key, int line);
Value slice_of(const Value& object, const Value& start, const Value& stop, const Value& step, int line);

bool equal(const Value& left, const Value& right);
bool contains(const Value& container, const Value& item, int line);
Value apply_binary(const std::string& op, const Value& left, const Value& right, int line);

}  // namespace lynx::jinja
