// What settings are checked with, once they are read.
#pragma once

#include <string>
#include <utility>

#include "common/config/yaml_reader.h"
#include "common/core/result.h"

namespace lynx {

// ConfigError "field: wanted" unless it fits.
inline void check_field(bool fits, const std::string& field, const std::string& wanted) {
  if (!fits) throw ConfigError(field + ": " + wanted);
}

// ConfigError "field: cause" when there is no value.
template <typename T>
T value_or_throw(const std::string& field, Result<T> result) {
  if (!result) throw ConfigError(field + ": " + result.error().message);
  return std::move(result).value();
}

// The same where the error begins with the name of a field in that section: "--pool." and "rate: expected
// ..." make "--pool.rate: expected ...".
template <typename T>
T value_or_throw_in(const std::string& section, Result<T> result) {
  if (!result) throw ConfigError(section + result.error().message);
  return std::move(result).value();
}

}  // namespace lynx
