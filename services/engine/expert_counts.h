// How often the tokens of one prompt went through each expert of each layer. Engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "services/engine/model.h"

namespace lynx {

class ExpertCounts {
 public:
  ExpertCounts() = default;  // not wanted: nobody asked
  explicit ExpertCounts(const ModelConfig& model)
      : experts_(model.router.experts), counts_(std::size_t{model.layers} * experts_, 0) {}

  bool wanted() const { return !counts_.empty(); }
  // The plan's rows [first, first + rows) are of this prompt.
  void add(std::uint32_t layer, const ExpertPlan& plan, std::uint32_t first, std::uint32_t rows);

  // [layers, experts] share of the counted tokens, in units of 1/255; empty before the first.
  std::vector<std::uint8_t> shares() const;

 private:
  std::size_t experts_ = 0;
  std::vector<std::uint32_t> counts_;  // [layers, experts]
  std::uint32_t tokens_ = 0;           // counted in layer 0
};

}  // namespace lynx
