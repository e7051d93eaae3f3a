#pragma once

#include <string>

namespace lynx {

// Throws ConfigError naming model.path when there is no such folder.
void check_model_folder(const std::string& path);

// A model's name in the API: the one given, or else that of its folder.
std::string served_model_name(const std::string& given, const std::string& path);

}  // namespace lynx
