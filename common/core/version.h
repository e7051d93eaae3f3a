// The version of this build, from the CMake project.
#pragma once

#include <string_view>

namespace lynx {

std::string_view version();  // "0.1.0"

}  // namespace lynx
