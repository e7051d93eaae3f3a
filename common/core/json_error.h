// What a JSON parser's exception says, without its name for itself: "[json.exception.parse_error.101] ".
#pragma once

#include <exception>
#include <string>

namespace lynx {

inline std::string json_reason(const std::exception& error) {
  std::string what = error.what();
  const auto end = what.starts_with("[json.exception.") ? what.find("] ") : std::string::npos;
  if (end != std::string::npos) what.erase(0, end + 2);
  return what;
}

}  // namespace lynx
