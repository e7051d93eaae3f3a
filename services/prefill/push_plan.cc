#include "services/prefill/push_plan.h"

namespace lynx {

std::vector<BlockRun> runs_completed_by(const ChunkPart& part, std::uint32_t block_tokens,
                                        std::span<const BlockId> source, std::span<const BlockId> target) {
  const std::uint32_t begin = part.from / block_tokens;
  const std::uint32_t end = part.last ? (part.to + block_tokens - 1) / block_tokens : part.to / block_tokens;
  std::vector<BlockRun> runs;
  for (std::uint32_t i = begin; i < end; ++i) {
    BlockRun* run = runs.empty() ? nullptr : &runs.back();
    if (run != nullptr && source[i] == run->source + run->blocks && target[i] == run->target + run->blocks) {
      ++run->blocks;
    } else {
      runs.push_back({source[i], target[i], 1});
    }
  }
  return runs;
}

}  // namespace lynx
