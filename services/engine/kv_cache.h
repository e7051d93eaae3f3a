// The memory of a paged KV pool: one region, addressed through PageLayout. On the host it is this class's; a
// device's pool comes with the model that attaches it. Who may touch which block when is the ledger's
// business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/kv/kv_memory.h"
#include "common/kv/page_layout.h"
#include "kernels/backend.h"

namespace lynx {

class KvCache {
 public:
  // kLater: fill() comes before any other use; until then the pool costs no time and no memory.
  enum class Fill : std::uint8_t { kNow, kLater };
  // kDevice: no byte on the host. Throws std::bad_alloc.
  explicit KvCache(const PageLayout& layout, Fill fill = Fill::kNow, KvMemory memory = KvMemory::kHost);

  void fill();  // zeroes, and so touches, every page: no page faults in a step. Any thread, once

  const PageLayout& layout() const { return layout_; }
  KvMemory memory() const { return memory_; }  // where run() lies
  // On the host; empty when there is nothing.
  std::span<std::byte> bytes() { return {data_.get(), data_ ? layout_.pool_bytes() : 0}; }
  std::byte* at(std::size_t offset) { return data_.get() + offset; }
  // Blocks as transports write and read them: of a device's memory once it is attached.
  std::span<std::byte> run(std::uint32_t layer, BlockId first, std::uint32_t count);

  KvPool* device() const { return device_.get(); }  // null: no model has attached it
  void set_device(std::unique_ptr<KvPool> pool) { device_ = std::move(pool); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  PageLayout layout_;
  KvMemory memory_;
  std::unique_ptr<std::byte[], Free> data_;
  std::unique_ptr<KvPool> device_;  // goes before the bytes that it refers to
};

}  // namespace lynx
