// The filters, tests, methods and functions of the supported subset, with what they take. The parser refuses
// everything else, so that a template either works or is refused at load.
#pragma once

#include <cstddef>
#include <string_view>

namespace lynx::jinja {

struct Callable {
  std::string_view name;
  std::size_t least, most;           // positional arguments, the value itself not counted
  std::string_view keyword = {};     // the one that may be named
  std::size_t keyword_position = 0;  // which argument it is, from 1
};

// Null when there is none of that name.
const Callable* find_filter(std::string_view name);
const Callable* find_test(std::string_view name);
const Callable* find_method(std::string_view name);
const Callable* find_function(std::string_view name);

}  // namespace lynx::jinja
