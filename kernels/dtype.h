// Element types of tensors, and bf16 as the upper half of an f32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace lynx {

enum class Dtype : std::uint8_t { kF32, kBf16 };

constexpr std::size_t bytes_of(Dtype dtype) { return dtype == Dtype::kF32 ? 4 : 2; }

constexpr float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest, ties to even; a NaN stays a NaN.
constexpr std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace lynx
