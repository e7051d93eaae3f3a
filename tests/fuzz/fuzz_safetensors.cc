// A safetensors file of any bytes: parsed or refused, and what is parsed lies inside the file.
#include <cstdlib>
#include <span>

#include "services/engine/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = lynx::parse_safetensors(std::as_bytes(std::span(data, size)));
  if (!parsed) return 0;
  for (const auto& [name, entry] : *parsed) {
    if (entry.begin > entry.end || entry.end > size) std::abort();
  }
  return 0;
}
