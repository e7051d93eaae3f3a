// Division by a number known at launch, as the host computes it. Needs no GPU.
#include "kernels/cuda/divider.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lynx::cuda {
namespace {

constexpr std::uint32_t kMost = 0xFFFFFFFFU;  // of a product of the number and the divisor

TEST(CudaDivider, IsExactAsFarAsItPromises) {
  for (std::uint32_t by = 1; by < 65536; by += by < 2100 ? 1 : 97) {
    const Divider divide(by);
    const std::uint32_t end = kMost / by;
    const auto expect = [&](std::uint32_t x) { ASSERT_EQ(divide(x), x / by) << x << " by " << by; };
    const std::uint64_t multiples = end / by;
    for (std::uint64_t i = 1; i <= multiples; i += std::max<std::uint64_t>(1, multiples / 50)) {
      expect(static_cast<std::uint32_t>(i * by - 1));
      expect(static_cast<std::uint32_t>(i * by));
    }
    for (const std::uint32_t x : {0U, end - 1, end}) expect(x);
  }
}

// The positions of the longest context, in blocks of any size that the settings allow.
TEST(CudaDivider, FindsTheBlockOfAnyToken) {
  for (std::uint32_t block_tokens = 1; block_tokens <= 1024; ++block_tokens) {
    const Divider divide(block_tokens);
    for (std::uint32_t block = 1, at = block_tokens; at < 131072; ++block, at += block_tokens) {
      ASSERT_EQ(divide(at - 1), block - 1) << block_tokens;
      ASSERT_EQ(divide(at), block) << block_tokens;
    }
  }
}

}  // namespace
}  // namespace lynx::cuda
