// Which blocks of a leased prompt have arrived: layers x blocks bits and a count. Pure; blocks are numbered
// by their place in the prompt.
#pragma once

#include <cstdint>
#include <vector>

namespace lynx {

class Landing {
 public:
  Landing() = default;
  Landing(std::uint32_t layers, std::uint32_t blocks)
      : blocks_(blocks), left_(std::uint64_t{layers} * blocks), landed_(left_, false) {}

  // The same block may land twice (a sender that retries); it counts once.
  void mark(std::uint32_t layer, std::uint32_t block) {
    const std::uint64_t bit = std::uint64_t{layer} * blocks_ + block;
    if (landed_[bit]) return;
    landed_[bit] = true;
    --left_;
  }
  bool complete() const { return left_ == 0; }
  std::uint64_t left() const { return left_; }

 private:
  std::uint32_t blocks_ = 0;
  std::uint64_t left_ = 0;
  std::vector<bool> landed_;
};

}  // namespace lynx
