#include "services/engine/expert_counts.h"

#include <algorithm>

namespace lynx {

void ExpertCounts::add(std::uint32_t layer, const ExpertPlan& plan, std::uint32_t first, std::uint32_t rows) {
  if (layer == 0) tokens_ += rows;
  const std::size_t end = std::size_t{first + rows} * plan.top_k;
  for (std::size_t i = std::size_t{first} * plan.top_k; i < end; ++i)
    if (plan.experts[i] != ExpertPlan::kNoExpert) ++counts_[layer * experts_ + plan.experts[i]];
}

std::vector<std::uint8_t> ExpertCounts::shares() const {
  std::vector<std::uint8_t> out;
  if (tokens_ == 0) return out;
  out.reserve(counts_.size());
  for (const std::uint32_t count : counts_) {
    const std::uint64_t share = (std::uint64_t{count} * 255 + tokens_ / 2) / tokens_;
    out.push_back(static_cast<std::uint8_t>(std::min<std::uint64_t>(share, 255)));
  }
  return out;
}

}  // namespace lynx
