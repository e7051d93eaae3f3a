#include "services/engine/kv_cache.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace lynx {

void KvCache::Free::operator()(std::byte* p) const { std::free(p); }

KvCache::KvCache(const PageLayout& layout, Fill fill) : layout_(layout) {
  constexpr std::size_t kPage = 4096;  // what transports register memory in
  const std::size_t bytes = (layout.pool_bytes() + kPage - 1) / kPage * kPage;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  if (!data_) throw std::bad_alloc();
  if (fill == Fill::kNow) this->fill();
}

void KvCache::fill() { std::memset(data_.get(), 0, layout_.pool_bytes()); }

}  // namespace lynx
