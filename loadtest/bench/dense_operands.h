// What the benchmarks of the dense kernels make their operands with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bench/device_graph.h"
#include "kernels/bench/device_roofline.h"
#include "kernels/tensor.h"

namespace lynx::cuda {

inline constexpr unsigned kReplays = 15;

inline DeviceBlock<std::uint16_t> random_bf16(std::size_t count, float spread) {
  auto block = allocate_block<std::uint16_t>(count);
  fill_random_bf16(block.get(), count, spread, count, nullptr);
  return block;
}

template <typename T>
TensorView view_of(const DeviceBlock<T>& block, std::uint32_t rows, std::uint32_t cols,
                   std::size_t first = 0) {
  return {reinterpret_cast<std::byte*>(block.get() + first), sizeof(T) == 4 ? Dtype::kF32 : Dtype::kBf16,
          rows, cols, cols};
}

inline std::vector<float> ones(std::size_t count) { return std::vector<float>(count, 1.0F); }

}  // namespace lynx::cuda
