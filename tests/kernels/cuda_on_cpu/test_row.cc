// Arithmetic of routing that has to be exact.
#include <gtest/gtest.h>

#include <random>

#include "tests/kernels/cuda_on_cpu/device_code.h"
// Behind the words of CUDA's language.
#include "kernels/cuda/route_row.cuh"

namespace lynx::cuda {
namespace {

// Parts of any size, and those next to where the quotient changes.
TEST(RouteRow, RatioIsTheQuotientRoundedDown) {
  std::mt19937_64 rng(std::random_device{}());
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t whole = (rng() >> 27 | 1) >> rng() % 37 | 1;
    const std::uint64_t about = (rng() % ((1U << 24) + 1)) * static_cast<unsigned __int128>(whole) >> 24;
    for (const std::uint64_t part :
         {rng() % (whole + 1), about, std::min(about + 1, whole), whole, whole - 1}) {
      ASSERT_EQ(ratio<24>(part, whole), (part << 24) / whole) << part << " of " << whole;
      ASSERT_EQ(ratio<16>(part, whole), (part << 16) / whole) << part << " of " << whole;
    }
  }
}

}  // namespace
}  // namespace lynx::cuda
