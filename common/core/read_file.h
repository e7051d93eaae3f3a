// Files that are read whole at start-up.
#pragma once

#include <string>

namespace lynx {

// Throws std::runtime_error "PATH: cannot be read: " and the system's reason.
std::string read_file(const std::string& path);

}  // namespace lynx
