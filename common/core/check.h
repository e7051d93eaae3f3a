// LYNX_CHECK(condition, message): an invariant of our own code. When it fails the process prints the place
// and aborts: going on would corrupt requests. Never use it on outside input; that gets a Result.
#pragma once

#include <string_view>

namespace lynx {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);
}  // namespace lynx

#define LYNX_CHECK(condition, message)                                 \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::lynx::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
