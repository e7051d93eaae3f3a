#include "common/kv/block_pool.h"

#include <algorithm>
#include <iterator>

#include "common/core/check.h"

namespace lynx {

BlockPool::BlockPool(std::uint32_t blocks) : free_(blocks) {
  if (blocks > 0) runs_.emplace(0, blocks);
}

void BlockPool::take(std::uint32_t count, std::vector<BlockId>& out) {
  LYNX_CHECK(count <= free_, "a block pool is asked for more than is free");
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  free_ -= count;
  while (count > 0) {
    const auto run = best_run(count);
    const auto [first, length] = *run;
    const std::uint32_t taken = std::min(count, length);
    for (std::uint32_t i = 0; i < taken; ++i) out.push_back(first + i);
    runs_.erase(run);
    if (taken < length) runs_.emplace(first + taken, length - taken);
    count -= taken;
  }
  std::sort(out.begin() + begin, out.end());
}

void BlockPool::give_back(BlockId block) {
  const auto next = runs_.lower_bound(block);
  LYNX_CHECK(next == runs_.end() || next->first != block, "a block is freed twice");
  const bool joins_next = next != runs_.end() && next->first == block + 1;
  const auto previous = next == runs_.begin() ? runs_.end() : std::prev(next);
  const bool has_previous = previous != runs_.end();
  LYNX_CHECK(!has_previous || previous->first + previous->second <= block, "a block is freed twice");

  const std::uint32_t length = 1 + (joins_next ? next->second : 0);
  if (joins_next) runs_.erase(next);
  if (has_previous && previous->first + previous->second == block) {
    previous->second += length;
  } else {
    runs_.emplace(block, length);
  }
  ++free_;
}

BlockPool::Runs::iterator BlockPool::best_run(std::uint32_t count) {
  auto best = runs_.begin();
  for (auto run = std::next(best); run != runs_.end(); ++run) {
    const bool fits = run->second >= count;
    const bool best_fits = best->second >= count;
    const bool better =
        fits == best_fits ? (fits ? run->second < best->second : run->second > best->second) : fits;
    if (better) best = run;
  }
  return best;
}

}  // namespace lynx
