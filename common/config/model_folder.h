#pragma once

#include <string>

namespace lynx {

// Throws ConfigError naming model.path when there is no such folder.
void check_model_folder(const std::string& path);

}  // namespace lynx
