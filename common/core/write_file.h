// Files that are written whole.
#pragma once

#include <string>
#include <string_view>

namespace lynx {

// Throws std::runtime_error "PATH: cannot be written: " and the system's reason, as that the disk is full.
// What is in the file then is not defined.
void write_file(const std::string& path, std::string_view text);

}  // namespace lynx
