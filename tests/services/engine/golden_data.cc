#include "tests/services/engine/golden_data.h"

#include <cstring>
#include <stdexcept>

#include "services/engine/safetensors.h"

namespace lynx::testing {
namespace {

template <typename T>
std::vector<T> values(const MappedFile& file, const SafetensorsHeader& header, const std::string& name) {
  const SafetensorsEntry& entry = header.at(name);
  std::vector<T> out((entry.end - entry.begin) / sizeof(T));
  std::memcpy(out.data(), file.bytes().data() + entry.begin, out.size() * sizeof(T));
  return out;
}

}  // namespace

std::vector<GoldenPrompt> read_golden(const std::string& path) {
  const MappedFile file(path);
  const auto header = parse_safetensors(file.bytes());
  if (!header) throw std::runtime_error(path + ": " + header.error().message);
  std::vector<GoldenPrompt> out;
  for (std::size_t i = 0; header->contains(std::to_string(i) + ".tokens"); ++i) {
    const std::string prompt = std::to_string(i) + ".";
    out.push_back({values<TokenId>(file, *header, prompt + "tokens"),
                   values<std::uint32_t>(file, *header, prompt + "top1"),
                   values<float>(file, *header, prompt + "margin"),
                   values<std::uint32_t>(file, *header, prompt + "rows"),
                   values<float>(file, *header, prompt + "logits")});
  }
  return out;
}

}  // namespace lynx::testing
