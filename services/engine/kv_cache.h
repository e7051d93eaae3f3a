// The memory of a paged KV pool on the host: one aligned region, addressed through PageLayout. Who may touch
// which block when is the ledger's business; this class only owns the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/kv/page_layout.h"
#include "kernels/backend.h"

namespace lynx {

class KvCache {
 public:
  // kLater: fill() comes before any other use; until then the pool costs no time and no memory.
  enum class Fill : std::uint8_t { kNow, kLater };
  explicit KvCache(const PageLayout& layout, Fill fill = Fill::kNow);  // throws std::bad_alloc

  void fill();  // zeroes, and so touches, every page: no page faults in a step. Any thread, once

  const PageLayout& layout() const { return layout_; }
  std::span<std::byte> bytes() { return {data_.get(), layout_.pool_bytes()}; }
  std::span<std::byte> run(std::uint32_t layer, BlockId first, std::uint32_t count) {
    return {data_.get() + layout_.block_offset(layer, first), count * layout_.block_bytes()};
  }
  std::byte* at(std::size_t offset) { return data_.get() + offset; }

  KvPool* device() const { return device_.get(); }  // null: no model has attached it
  void set_device(std::unique_ptr<KvPool> pool) { device_ = std::move(pool); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  PageLayout layout_;
  std::unique_ptr<std::byte[], Free> data_;
  std::unique_ptr<KvPool> device_;  // goes before the bytes that it refers to
};

}  // namespace lynx
