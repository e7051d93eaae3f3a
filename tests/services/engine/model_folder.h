// Builds Hugging Face folders with any fault one likes, in a temporary directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lynx::testing {

// A safetensors file from its JSON header and data, whatever they say.
std::vector<std::byte> safetensors_bytes(const std::string& header, std::size_t data_bytes);

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_.string(); }
  void write(const std::string& name, const std::string& text) const;
  void write(const std::string& name, const std::vector<std::byte>& bytes) const;

 private:
  std::filesystem::path path_;
};

}  // namespace lynx::testing
