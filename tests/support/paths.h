// Where the checkout and the built programs lie. The environment's LYNX_SOURCE_DIR and LYNX_BINARY_DIR win,
// so that a test program also runs on a machine that did not build it.
#pragma once

#include <string>

namespace lynx {

std::string source_path(const std::string& relative);  // of the checkout: "deploy/model"
std::string binary_path(const std::string& relative);  // of the build folder: "bin/lynx-router"

}  // namespace lynx
