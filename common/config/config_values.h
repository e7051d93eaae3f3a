// One configuration value: from text to its typed target and back. Shared by the YAML reader, the flags and
// the printer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/config/yaml_reader.h"

namespace lynx::config {

enum class Shape { kScalar, kList, kMap };
Shape shape_of(const ConfigFields::Target& target);

// "an integer from 0 to 65535": completes "expected ...".
std::string expectation(const ConfigFields::Target& target);

// False when the text is no value of the target's type; the target is then unchanged. Scalars only.
bool set_scalar(const ConfigFields::Target& target, std::string_view text);

// Strings and durations may stand in quotes in YAML; a quoted number or boolean is a string, hence a wrong
// type.
bool may_be_quoted(const ConfigFields::Target& target);

std::optional<double> parse_double(std::string_view text);

// In YAML syntax; reading it back gives the same value.
std::string print_scalar(const ConfigFields::Target& target);
std::string print_string(std::string_view text);
std::string print_double(double value);

// ", did you mean 'x'?" for the candidate that is only a slip away, else empty.
std::string suggestion(std::string_view given, const std::vector<std::string>& candidates);

}  // namespace lynx::config
