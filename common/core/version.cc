#include "common/core/version.h"

namespace lynx {

std::string_view version() { return LYNX_VERSION; }

}  // namespace lynx
