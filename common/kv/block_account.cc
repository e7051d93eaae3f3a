#include "common/kv/block_account.h"

#include "common/core/check.h"

namespace lynx {
namespace {

std::size_t index_of(BlockState state) { return static_cast<std::size_t>(state); }

}  // namespace

std::string_view to_string(BlockState state) {
  switch (state) {
    case BlockState::kFree:
      return "free";
    case BlockState::kLeased:
      return "leased";
    case BlockState::kReceiving:
      return "receiving";
    case BlockState::kActive:
      return "active";
    case BlockState::kQuarantined:
      return "quarantined";
  }
  return "unknown";
}

BlockAccount::BlockAccount(std::uint32_t blocks)
    : pool_(blocks),
      kept_at_(blocks),
      keep_(blocks, false),
      uses_(blocks, 0),
      states_(blocks, BlockState::kFree) {
  counts_[index_of(BlockState::kFree)] = blocks;
}

void BlockAccount::take_fresh(std::uint32_t count, std::vector<BlockId>& out) {
  while (pool_.free_blocks() < count) {
    const BlockId oldest = kept_.front();
    kept_.pop_front();
    kept_at_[oldest].reset();
    keep_[oldest] = false;
    on_reuse_(oldest);
    pool_.give_back(oldest);
  }
  const std::size_t before = out.size();
  pool_.take(count, out);
  for (std::size_t i = before; i < out.size(); ++i) uses_[out[i]] = 1;
}

void BlockAccount::take_shared(BlockId block) {
  if (uses_[block]++ > 0) return;
  auto& kept_at = kept_at_[block];
  LYNX_CHECK(kept_at.has_value(), "a shared block is neither in use nor kept");
  kept_.erase(*kept_at);
  kept_at.reset();
  set_state(block, BlockState::kActive);
}

void BlockAccount::give_back(BlockId block) {
  if (--uses_[block] > 0) return;  // another prompt begins alike
  set_state(block, BlockState::kFree);
  if (keep_[block]) {
    kept_at_[block] = kept_.insert(kept_.end(), block);
  } else {
    pool_.give_back(block);
  }
}

void BlockAccount::set_state(BlockId block, BlockState state) {
  --counts_[index_of(states_[block])];
  ++counts_[index_of(state)];
  states_[block] = state;
}

void BlockAccount::keep(BlockId block) {
  LYNX_CHECK(uses_[block] > 0, "only a block in use can be kept");
  keep_[block] = true;
}

}  // namespace lynx
