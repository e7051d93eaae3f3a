// Which block runs of a prompt may leave after a chunk: pure arithmetic over block tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/kv/page_layout.h"
#include "services/engine/engine_messages.h"

namespace lynx {

// Contiguous in the pool of both sides, so it moves as one message.
struct BlockRun {
  BlockId source = 0;
  BlockId target = 0;
  std::uint32_t blocks = 0;
  bool operator==(const BlockRun&) const = default;
};

// The blocks that this chunk completes. A block that the chunk only begins waits for the chunk that fills it;
// the last chunk takes the prompt's partial block along. So each block of a layer leaves exactly once, and is
// never written again after it left: positions only grow.
std::vector<BlockRun> runs_completed_by(const ChunkPart& part, std::uint32_t block_tokens,
                                        std::span<const BlockId> source, std::span<const BlockId> target);

}  // namespace lynx
