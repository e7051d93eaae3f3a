#include <gtest/gtest.h>

#include <vector>

#include "common/kv/page_layout.h"

namespace lynx {
namespace {

PageLayout layout() {
  return {.layers = 3, .blocks = 5, .block_tokens = 4, .kv_heads = 2, .head_dim = 8, .dtype = KvDtype::kF32};
}

TEST(PageLayout, SizesFollowFromTheShape) {
  EXPECT_EQ(layout().token_bytes(), 2U * 8 * 4);
  EXPECT_EQ(layout().block_bytes(), 2U * 4 * 64);
  EXPECT_EQ(layout().pool_bytes(), 3U * 5 * 512);
  PageLayout half = layout();
  half.dtype = KvDtype::kBf16;
  EXPECT_EQ(half.pool_bytes() * 2, layout().pool_bytes());
}

TEST(PageLayout, EveryTokenHasItsOwnBytesAndThePoolIsFull) {
  const PageLayout l = layout();
  std::vector<int> owners(l.pool_bytes(), 0);
  const auto claim = [&](std::size_t offset) {
    for (std::size_t i = 0; i < l.token_bytes(); ++i) ++owners.at(offset + i);
  };
  for (std::uint32_t layer = 0; layer < l.layers; ++layer)
    for (BlockId block = 0; block < l.blocks; ++block)
      for (std::uint32_t slot = 0; slot < l.block_tokens; ++slot) {
        claim(l.k_offset(layer, block, slot));
        claim(l.v_offset(layer, block, slot));
      }
  for (const int n : owners) ASSERT_EQ(n, 1);
}

TEST(PageLayout, ConsecutiveBlocksOfALayerAreOneRunOfBytes) {
  const PageLayout l = layout();
  EXPECT_EQ(l.block_offset(1, 3), l.block_offset(1, 2) + l.block_bytes());
  EXPECT_EQ(l.block_offset(1, 0), l.block_offset(0, l.blocks - 1) + l.block_bytes());
}

TEST(PageLayout, BlocksForRoundsUpWithoutOverflow) {
  EXPECT_EQ(layout().blocks_for(0), 0U);
  EXPECT_EQ(layout().blocks_for(1), 1U);
  EXPECT_EQ(layout().blocks_for(4), 1U);
  EXPECT_EQ(layout().blocks_for(5), 2U);
  EXPECT_EQ(layout().blocks_for(0xffffffffU), 0x40000000U);
}

TEST(PageLayout, LargePoolsDoNotOverflow32Bits) {
  const PageLayout big{.layers = 94, .blocks = 100'000, .block_tokens = 16, .kv_heads = 4, .head_dim = 128};
  EXPECT_EQ(big.pool_bytes(), 94ULL * 100'000 * 65'536);
  EXPECT_EQ(big.block_offset(93, 99'999), big.pool_bytes() - big.block_bytes());
}

TEST(PageLayout, FingerprintIgnoresThePoolSizeAndNothingElse) {
  PageLayout other = layout();
  other.blocks = 1000;
  EXPECT_EQ(other.fingerprint(), layout().fingerprint());

  const std::vector<void (*)(PageLayout&)> changes{
      [](PageLayout& l) { l.layers = 4; }, [](PageLayout& l) { l.block_tokens = 8; },
      [](PageLayout& l) { l.kv_heads = 8; }, [](PageLayout& l) { l.head_dim = 2; },
      [](PageLayout& l) { l.dtype = KvDtype::kBf16; }};
  for (const auto change : changes) {
    PageLayout changed = layout();
    change(changed);
    EXPECT_NE(changed.fingerprint(), layout().fingerprint()) << changed.describe();
  }
}

// FNV-1a of {1, 3, 4, 2, 8, 0}, computed elsewhere.
TEST(PageLayout, FingerprintIsTheSameInEveryBuild) {
  EXPECT_EQ(layout().fingerprint(), 0x48b6944cb3251949ULL);
}

TEST(PageLayout, DescribesItselfForTheErrorOfAMismatch) {
  EXPECT_EQ(layout().describe(), "3 layers, 4 tokens a block, 2 kv heads of 8, f32");
}

}  // namespace
}  // namespace lynx
