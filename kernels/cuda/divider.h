// Division of small numbers by one that is known at launch: one instruction instead of twenty. Kernels that
// run once have to fetch every instruction that they run.
#pragma once

#include <cstdint>

namespace lynx::cuda {

class Divider {
 public:
  Divider() = default;
  explicit Divider(std::uint32_t by) : by_(by), factor_(static_cast<std::uint32_t>((kOne + by - 1) / by)) {}

#ifdef __CUDACC__
  // Exact while x times the divisor stays below 2^32.
  __device__ std::uint32_t operator()(std::uint32_t x) const {
    return factor_ == 0 ? x : __umulhi(x, factor_);
  }
  __device__ std::uint32_t by() const { return by_; }
#endif

 private:
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 32;
  std::uint32_t by_ = 1;
  std::uint32_t factor_ = 0;  // 2^32 over the divisor, rounded up; 0 for 1
};

}  // namespace lynx::cuda
