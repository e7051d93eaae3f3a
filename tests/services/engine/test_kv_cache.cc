// The bytes of a KV pool: when they are touched, and what they hold.
#include "services/engine/kv_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace lynx {
namespace {

constexpr std::size_t kPage = 4096;

PageLayout layout() {  // 16 MiB
  PageLayout out;
  out.layers = 2;
  out.blocks = 1024;
  out.block_tokens = 16;
  out.kv_heads = 2;
  out.head_dim = 64;
  out.dtype = KvDtype::kBf16;
  return out;
}

std::size_t resident_pages(KvCache& cache) {
  const std::size_t pages = cache.bytes().size() / kPage;
  std::vector<unsigned char> resident(pages);
  EXPECT_EQ(::mincore(cache.bytes().data(), pages * kPage, resident.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

// Field report 17: a large pool takes seconds to touch; a worker answers its probes before it begins.
TEST(KvCache, TouchesItsPagesWhenItIsToldTo) {
  KvCache later(layout(), KvCache::Fill::kLater);
  const std::size_t pages = later.bytes().size() / kPage;
  ASSERT_EQ(pages, 4096U);
  EXPECT_LT(resident_pages(later), pages / 64) << "an allocator may write a page or two itself";
  later.fill();
  EXPECT_EQ(resident_pages(later), pages);
  EXPECT_TRUE(
      std::all_of(later.bytes().begin(), later.bytes().end(), [](std::byte b) { return b == std::byte{}; }));

  KvCache now(layout());
  EXPECT_EQ(resident_pages(now), pages);
}

class FarPool final : public KvPool {  // stands for a device's
 public:
  FarPool(const PageLayout& layout, std::byte* memory) : KvPool(layout, {}), memory_(memory) {}
  std::byte* shared() const override { return memory_; }

 private:
  std::byte* memory_;
};

TEST(KvCache, OfADeviceHasNothingOnTheHostAndGivesTheDevicesBlocks) {
  KvCache cache(layout(), KvCache::Fill::kLater, KvMemory::kDevice);
  cache.fill();
  EXPECT_TRUE(cache.bytes().empty());
  std::vector<std::byte> device(layout().pool_bytes());
  cache.set_device(std::make_unique<FarPool>(layout(), device.data()));
  const auto run = cache.run(1, 3, 2);
  EXPECT_EQ(run.data(), device.data() + layout().block_offset(1, 3));
  EXPECT_EQ(run.size(), 2 * layout().block_bytes());
}

}  // namespace
}  // namespace lynx
