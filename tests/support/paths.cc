#include "tests/support/paths.h"

#include <cstdlib>

namespace lynx {
namespace {

std::string below(const char* variable, const char* built_in, const std::string& relative) {
  const char* root = std::getenv(variable);
  return std::string(root != nullptr ? root : built_in) + "/" + relative;
}

}  // namespace

std::string source_path(const std::string& relative) {
  return below("LYNX_SOURCE_DIR", LYNX_SOURCE_DIR, relative);
}
std::string binary_path(const std::string& relative) {
  return below("LYNX_BINARY_DIR", LYNX_BINARY_DIR, relative);
}

}  // namespace lynx
