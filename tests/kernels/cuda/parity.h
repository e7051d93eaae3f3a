// What the parity tests of the CUDA kernels share: fresh random data, outputs that start poisoned, and the
// comparison with a reference computed in double.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/tensor.h"
#include "tests/kernels/cuda/device_array.h"

namespace lynx::cuda {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = missing_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
};

// A new seed for every run, printed by a failure's trace.
inline std::uint64_t fresh_seed() {
  static std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// Uniform with standard deviation `scale`. A plain xorshift: the tests draw hundreds of millions.
inline std::vector<float> random_floats(std::size_t count, std::uint64_t seed, float scale = 1) {
  std::uint64_t state = seed | 1U;
  std::vector<float> out(count);
  for (float& value : out) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    value = scale * 1.7320508F * (static_cast<float>(state >> 40) * 0x1p-23F - 1);
  }
  return out;
}

inline std::vector<float> rounded_to_bf16(std::vector<float> values) {
  for (float& value : values) value = bf16_to_f32(f32_to_bf16(value));
  return values;
}

// A matrix in device memory whose rows lie `gap` elements further apart than they must.
class DeviceMatrix {
 public:
  DeviceMatrix(Dtype dtype, std::uint32_t rows, std::uint32_t cols, std::uint32_t gap = 0)
      : view_{nullptr, dtype, rows, cols, std::size_t{cols} + gap},
        bytes_(rows * view_.stride * bytes_of(dtype)) {
    view_.data = bytes_.get();
  }
  DeviceMatrix(Dtype dtype, std::uint32_t rows, std::uint32_t cols, const std::vector<float>& values,
               std::uint32_t gap = 0)
      : DeviceMatrix(dtype, rows, cols, gap) {
    upload(values);
  }

  TensorView view() const { return view_; }
  TensorView view(std::uint32_t rows) const { return view_.first_rows(rows); }
  void poison() { bytes_.poison(); }

  void upload(const std::vector<float>& values) {
    const std::size_t size = bytes_of(view_.dtype);
    std::vector<std::byte> all(bytes_.size(), std::byte{0xFF});
    for (std::size_t r = 0; r < view_.rows; ++r) {
      for (std::size_t c = 0; c < view_.cols; ++c) {
        const float value = values[r * view_.cols + c];
        const std::uint16_t half = f32_to_bf16(value);
        const void* from = size == 4 ? static_cast<const void*>(&value) : &half;
        std::memcpy(all.data() + (r * view_.stride + c) * size, from, size);
      }
    }
    bytes_.upload(all);
  }

  // Row by row, gaps included.
  std::vector<std::byte> raw() const { return bytes_.download(); }
  std::vector<std::byte> raw_row(std::uint32_t row) const {
    const std::size_t size = view_.stride * bytes_of(view_.dtype);
    return DeviceArray<std::byte>::download_from(bytes_.get() + row * size, size);
  }
  std::vector<float> floats() const {
    const std::vector<std::byte> all = raw();
    const std::size_t size = bytes_of(view_.dtype);
    std::vector<float> out;
    out.reserve(std::size_t{view_.rows} * view_.cols);
    for (std::size_t r = 0; r < view_.rows; ++r) {
      for (std::size_t c = 0; c < view_.cols; ++c) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, all.data() + (r * view_.stride + c) * size, size);
        out.push_back(size == 4 ? std::bit_cast<float>(bits) : bf16_to_f32(static_cast<std::uint16_t>(bits)));
      }
    }
    return out;
  }

  // Nothing was written to rows [first, rows) or to the gaps.
  void expect_padding_poisoned(std::uint32_t first) const {
    const std::vector<std::byte> all = raw();
    const std::size_t size = bytes_of(view_.dtype);
    for (std::size_t r = 0; r < view_.rows; ++r) {
      const std::size_t from = r < first ? view_.cols : 0;
      for (std::size_t i = (r * view_.stride + from) * size; i < (r + 1) * view_.stride * size; ++i)
        ASSERT_EQ(all[i], std::byte{0xFF}) << "row " << r << " was written past its end, or is padding";
    }
  }

 private:
  TensorView view_;
  DeviceArray<std::byte> bytes_;
};

// ||out - ref|| / ||ref||; a NaN anywhere gives NaN, which no bound admits.
inline double relative_error(const std::vector<float>& out, const std::vector<double>& ref) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < ref.size(); ++i) {
    difference += (out.at(i) - ref[i]) * (out.at(i) - ref[i]);
    norm += ref[i] * ref[i];
  }
  return std::sqrt(difference / norm);
}

inline double allowed(Dtype dtype) { return dtype == Dtype::kF32 ? 1e-4 : 1e-2; }
inline const char* name(Dtype dtype) { return dtype == Dtype::kF32 ? "f32" : "bf16"; }

}  // namespace lynx::cuda
