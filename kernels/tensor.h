// Views of row-major matrices in device memory, and of tensors in host memory that wait to be loaded. Views
// own nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/dtype.h"

namespace lynx {

// [rows, cols]; row i starts at data + i * stride elements. A [T, heads, D] tensor is a view with cols =
// heads * D.
struct TensorView {
  std::byte* data = nullptr;
  Dtype dtype = Dtype::kF32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::size_t stride = 0;

  TensorView first_rows(std::uint32_t count) const { return {data, dtype, count, cols, stride}; }
  TensorView columns(std::uint32_t first, std::uint32_t count) const {
    return {data + first * bytes_of(dtype), dtype, rows, count, stride};
  }
  float* f32_row(std::size_t row) const { return reinterpret_cast<float*>(data) + row * stride; }
  std::uint16_t* bf16_row(std::size_t row) const {
    return reinterpret_cast<std::uint16_t*>(data) + row * stride;
  }
};

// Owned device memory; how it is freed is the backend's business.
using DeviceMemory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

struct Tensor {
  DeviceMemory memory;
  TensorView view;
};

// A dense tensor in host memory, as read from a file. `owner` keeps the bytes alive.
struct HostTensor {
  std::string name;  // for error messages
  Dtype dtype = Dtype::kF32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  std::uint64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
  std::uint64_t cols() const { return shape.empty() ? 0 : shape.back(); }
};

}  // namespace lynx
