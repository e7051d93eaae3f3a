#include "tests/services/engine/model_folder.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace lynx::testing {

std::vector<std::byte> safetensors_bytes(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> out(sizeof(length) + header.size() + data_bytes);
  std::memcpy(out.data(), &length, sizeof(length));
  std::memcpy(out.data() + sizeof(length), header.data(), header.size());
  return out;
}

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "lynx-model-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TempFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
}

void TempFolder::write(const std::string& name, const std::vector<std::byte>& bytes) const {
  std::ofstream(path_ / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace lynx::testing
