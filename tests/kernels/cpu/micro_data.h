// The instruction sets of this machine, and numbers to give them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cpu/micro/micro_kernels.h"

namespace lynx::testing {

inline std::vector<const MicroKernels*> all_kernels() {
  std::vector<const MicroKernels*> out;
  for (const Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    if (const MicroKernels* kernels = micro_kernels(isa)) out.push_back(kernels);
  }
  return out;
}

inline std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float& value : out) value = uniform(random);
  return out;
}

}  // namespace lynx::testing
