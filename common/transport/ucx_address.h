// A UCX worker address as Lynx passes it on. UCX believes every byte of an address that it is given, so ours
// carries a magic, the UCX version and a checksum: what was cut, garbled or made by another version is
// refused before UCX sees it.
#pragma once

#include <string>
#include <string_view>

#include "common/core/result.h"

namespace lynx {

std::string seal_address(std::string_view worker_address);
Result<std::string> open_address(std::string_view sealed);

}  // namespace lynx
