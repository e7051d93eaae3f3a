// The state of every block of one pool, and which free ones still hold bytes worth finding again. The leases
// over them are KvLedger's; this knows blocks alone. A block is in exactly one state; the sum of the states
// is the pool. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/page_layout.h"

namespace lynx {

enum class BlockState : std::uint8_t { kFree, kLeased, kReceiving, kActive, kQuarantined };
inline constexpr std::size_t kBlockStates = 5;
std::string_view to_string(BlockState state);

class BlockAccount {
 public:
  explicit BlockAccount(std::uint32_t blocks);

  // Free blocks into one use each: first those that are not kept, then the kept ones, the oldest first. Their
  // state is the caller's to set. count <= free_blocks().
  void take_fresh(std::uint32_t count, std::vector<BlockId>& out);
  void take_shared(BlockId block);  // one use more of a block that is active or kept; it is then active
  void give_back(BlockId block);    // one use fewer; free with the last
  void set_state(BlockId block, BlockState state);

  // See KvLedger.
  void keep(BlockId block);
  void on_reuse(std::function<void(BlockId)> told) { on_reuse_ = std::move(told); }

  BlockState state(BlockId block) const { return states_[block]; }
  std::uint32_t uses(BlockId block) const { return uses_[block]; }
  const std::array<std::uint32_t, kBlockStates>& counts() const { return counts_; }
  std::uint32_t free_blocks() const { return pool_.free_blocks() + static_cast<std::uint32_t>(kept_.size()); }
  std::uint32_t total_blocks() const { return static_cast<std::uint32_t>(states_.size()); }

 private:
  BlockPool pool_;           // free and not kept
  std::list<BlockId> kept_;  // free, with bytes worth keeping; the oldest first
  std::vector<std::optional<std::list<BlockId>::iterator>> kept_at_;
  std::vector<bool> keep_;           // goes there when it is free
  std::vector<std::uint32_t> uses_;  // leases that hold the block
  std::function<void(BlockId)> on_reuse_ = [](BlockId) {};
  std::vector<BlockState> states_;
  std::array<std::uint32_t, kBlockStates> counts_{};
};

}  // namespace lynx
