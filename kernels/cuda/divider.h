// Division of small numbers by one that is known at launch: one instruction instead of twenty. Kernels that
// run once have to fetch every instruction that they run.
#pragma once

#include <cstdint>

#include "kernels/lynx/fixed_point.h"

namespace lynx::cuda {

class Divider {
 public:
  Divider() = default;
  explicit Divider(std::uint32_t by) : by_(by), factor_(static_cast<std::uint32_t>((kOne + by - 1) / by)) {}

  // Exact while x times the divisor stays below 2^32.
  LYNX_HOST_DEVICE std::uint32_t operator()(std::uint32_t x) const {
    if (factor_ == 0) return x;
#ifdef __CUDA_ARCH__
    return __umulhi(x, factor_);
#else
    return static_cast<std::uint32_t>(std::uint64_t{x} * factor_ >> 32);
#endif
  }
  LYNX_HOST_DEVICE std::uint32_t by() const { return by_; }

 private:
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 32;
  std::uint32_t by_ = 1;
  std::uint32_t factor_ = 0;  // 2^32 over the divisor, rounded up; 0 for 1
};

}  // namespace lynx::cuda
