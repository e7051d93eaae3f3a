// Which blocks of a pool are free, kept as runs, so that a prompt's blocks lie side by side and move as few
// messages. Best fit: the smallest run that holds everything; when there is none, the largest runs first. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/kv/page_layout.h"

namespace lynx {

class BlockPool {
 public:
  explicit BlockPool(std::uint32_t blocks);

  std::uint32_t free_blocks() const { return free_; }

  // Appends count blocks to out, in ascending order. The caller has checked that count <= free_blocks().
  void take(std::uint32_t count, std::vector<BlockId>& out);
  void give_back(BlockId block);

 private:
  using Runs = std::map<BlockId, std::uint32_t>;  // first block -> length; no two runs touch

  Runs::iterator best_run(std::uint32_t count);

  Runs runs_;
  std::uint32_t free_;
};

}  // namespace lynx
