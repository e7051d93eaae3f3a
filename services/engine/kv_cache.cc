#include "services/engine/kv_cache.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "common/core/check.h"

namespace lynx {

void KvCache::Free::operator()(std::byte* p) const { std::free(p); }

KvCache::KvCache(const PageLayout& layout, Fill fill, KvMemory memory) : layout_(layout), memory_(memory) {
  if (memory == KvMemory::kDevice) return;
  constexpr std::size_t kPage = 4096;  // what transports register memory in
  const std::size_t bytes = (layout.pool_bytes() + kPage - 1) / kPage * kPage;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  if (!data_) throw std::bad_alloc();
  if (fill == Fill::kNow) this->fill();
}

void KvCache::fill() {
  if (data_) std::memset(data_.get(), 0, layout_.pool_bytes());
}

std::span<std::byte> KvCache::run(std::uint32_t layer, BlockId first, std::uint32_t count) {
  LYNX_CHECK(memory_ == KvMemory::kHost || device_ != nullptr, "no device's KV pool is attached");
  std::byte* const pool = memory_ == KvMemory::kHost ? data_.get() : device_->shared();
  return {pool + layout_.block_offset(layer, first), count * layout_.block_bytes()};
}

}  // namespace lynx
