// Randomness from the system, for what must not be guessed or met twice: seeds, ids of lives.
#pragma once

#include <cstdint>
#include <random>

namespace lynx {

inline std::uint64_t random64() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace lynx
