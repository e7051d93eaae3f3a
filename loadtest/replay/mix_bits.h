// A counter-based generator: the n-th number of a seed without the ones before it (SplitMix64's finalizer).
#pragma once

#include <cstdint>

namespace lynx {

constexpr std::uint64_t mix_bits(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed + (n + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

constexpr double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}  // [0, 1)

}  // namespace lynx
