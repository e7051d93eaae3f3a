// The safetensors file format: u64 header length, JSON header, tensor bytes. Parsed from bytes so that it can
// be fuzzed; mapped from a file for use. Every claim of the header is checked against the file before any
// tensor is handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace lynx {

struct SafetensorsEntry {
  std::string dtype;  // as written: "BF16", "F32", ...
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the start of the file
};

using SafetensorsHeader = std::map<std::string, SafetensorsEntry, std::less<>>;

// Checks: length and JSON of the header, known dtypes, dtype x shape = bytes, tensors that cover the data
// without overlap or gap, no name or key twice. An error (kCorrupt) names the tensor.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file);

// Bytes per element, 0 for a dtype that the format does not know.
std::uint64_t safetensors_dtype_bytes(std::string_view dtype);

// A file mapped read-only. Keep it alive while its bytes are used.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws std::runtime_error "path: reason"
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lynx
