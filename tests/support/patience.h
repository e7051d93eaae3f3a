// How long a test waits for what must come. It ends a test that would hang, and measures nothing: a machine
// that is slow, or stands still for a while, passes.
#pragma once

#include <chrono>

namespace lynx {

inline constexpr std::chrono::minutes kPatience{2};

}  // namespace lynx
