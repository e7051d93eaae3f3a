// A 64-bit FNV-1a hash fed piece by piece. For telling models and layouts apart, not for security.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lynx {

class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) hash_ = (hash_ ^ static_cast<std::uint64_t>(b)) * 0x100000001B3U;
  }
  void add(std::string_view text) {
    add(text.size());
    add(std::as_bytes(std::span(text)));
  }
  void add(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }

  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325U;
};

}  // namespace lynx
