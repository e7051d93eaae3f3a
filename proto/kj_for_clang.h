// Cap'n Proto 0.9 leaves these two out under C++20, counting on reversed operators that Clang 16 (P2468) no
// longer finds; its own headers then do not compile. Included ahead of everything by Clang alone (fuzz
// targets, clang-tidy).
#pragma once

#include <kj/string.h>

namespace kj {
inline bool operator==(const char* a, const StringPtr& b) { return b == StringPtr(a); }
inline bool operator!=(const char* a, const StringPtr& b) { return b != StringPtr(a); }
}  // namespace kj
