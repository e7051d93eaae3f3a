#include "common/config/model_folder.h"

#include <filesystem>

#include "common/config/yaml_reader.h"

namespace lynx {

void check_model_folder(const std::string& path) {
  std::error_code why;
  if (std::filesystem::is_directory(path, why)) return;
  throw ConfigError(
      "model.path: " + (why ? "'" + path + "': " + why.message() : "'" + path + "' is not a folder") +
      "; it names a folder of this machine: models of a hub are not downloaded");
}

std::string served_model_name(const std::string& given, const std::string& path) {
  if (!given.empty()) return given;
  const std::filesystem::path folder(path);
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

}  // namespace lynx
