#include "kernels/cuda/rows.h"

#include "tests/kernels/cuda/parity.h"

namespace lynx::cuda {
namespace {

class CudaRows : public GpuTest {};

TEST_F(CudaRows, EmbedWidensTheTokensRows) {
  constexpr std::uint32_t kVocab = 1000;
  for (const std::uint32_t hidden : {256U, 2048U, 3584U}) {
    const auto table = rounded_to_bf16(random_floats(std::size_t{kVocab} * hidden, fresh_seed()));
    const DeviceMatrix weights(Dtype::kBf16, kVocab, hidden, table);
    const std::vector<std::uint32_t> tokens = {999, 0, 17, 17, 3, 0, 0, 0};
    const DeviceArray<std::uint32_t> ids(tokens);
    const DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{5});
    const DeviceMatrix out(Dtype::kF32, 8, hidden, 8);
    embed({out.view(), weights.view(), ids.get(), live.get()}, nullptr);
    out.expect_padding_poisoned(5);
    const auto values = out.floats();
    for (std::uint32_t r = 0; r < 5; ++r)
      for (std::uint32_t c = 0; c < hidden; ++c)
        ASSERT_EQ(values[r * hidden + c], table[tokens[r] * hidden + c]) << r << ' ' << c;
  }
}

TEST_F(CudaRows, GatherCopiesRows) {
  constexpr std::uint32_t kHidden = 2048;
  const auto x = random_floats(9 * kHidden, fresh_seed());
  const DeviceMatrix from(Dtype::kF32, 9, kHidden, x, 16);
  const std::vector<std::uint32_t> rows = {8, 0, 3, 3};
  const DeviceArray<std::uint32_t> index(rows);
  const DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{3});
  const DeviceMatrix out(Dtype::kF32, 4, kHidden);
  gather_rows({out.view(), from.view(), index.get(), live.get()}, nullptr);
  out.expect_padding_poisoned(3);
  const auto values = out.floats();
  for (std::uint32_t r = 0; r < 3; ++r)
    for (std::uint32_t c = 0; c < kHidden; ++c)
      ASSERT_EQ(values[r * kHidden + c], x[rows[r] * kHidden + c]) << r << ' ' << c;
}

std::vector<double> rms_norm_reference(const std::vector<float>& x, const std::vector<float>& weight,
                                       std::uint32_t rows, double eps) {
  const std::size_t cols = weight.size();
  std::vector<double> out;
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += double{x[r * cols + c]} * x[r * cols + c];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(cols) + eps);
    for (std::size_t c = 0; c < cols; ++c) out.push_back(x[r * cols + c] * scale * weight[c]);
  }
  return out;
}

TEST_F(CudaRows, RmsNormMatchesTheReference) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    for (const std::uint32_t hidden : {256U, 2048U, 3584U, 4096U, 5120U, 8200U}) {
      for (const std::uint32_t rows : {1U, 5U, 64U}) {
        const auto x = random_floats(std::size_t{rows} * hidden, fresh_seed(), 3);
        const auto weight = random_floats(hidden, fresh_seed());
        const DeviceMatrix input(Dtype::kF32, rows, hidden, x, 8);
        const DeviceMatrix scale(Dtype::kF32, 1, hidden, weight);
        const DeviceMatrix out(dtype, rows, hidden, 8);
        rms_norm({out.view(), input.view(), scale.view(), 1e-6F, nullptr}, nullptr);
        out.expect_padding_poisoned(rows);
        EXPECT_LE(relative_error(out.floats(), rms_norm_reference(x, weight, rows, 1e-6)), allowed(dtype))
            << name(dtype) << ", " << rows << " rows of " << hidden;
      }
    }
  }
}

TEST_F(CudaRows, RmsNormLeavesPaddingAndKeepsARowsBits) {
  constexpr std::uint32_t kHidden = 2048;
  const auto x = random_floats(16 * kHidden, fresh_seed());
  const DeviceMatrix input(Dtype::kF32, 16, kHidden, x);
  const DeviceMatrix scale(Dtype::kF32, 1, kHidden, random_floats(kHidden, fresh_seed()));
  const DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{11});
  const DeviceMatrix all(Dtype::kBf16, 16, kHidden);
  rms_norm({all.view(), input.view(), scale.view(), 1e-6F, live.get()}, nullptr);
  all.expect_padding_poisoned(11);
  const DeviceMatrix one(Dtype::kBf16, 1, kHidden);
  TensorView row = input.view(1);
  row.data += 7 * kHidden * sizeof(float);
  rms_norm({one.view(), row, scale.view(), 1e-6F, nullptr}, nullptr);
  EXPECT_EQ(one.raw_row(0), all.raw_row(7));
}

TEST_F(CudaRows, RmsNormWorksInPlace) {
  constexpr std::uint32_t kHidden = 512;
  const auto x = random_floats(4 * kHidden, fresh_seed());
  const auto weight = random_floats(kHidden, fresh_seed());
  const DeviceMatrix both(Dtype::kF32, 4, kHidden, x);
  const DeviceMatrix scale(Dtype::kF32, 1, kHidden, weight);
  rms_norm({both.view(), both.view(), scale.view(), 1e-6F, nullptr}, nullptr);
  EXPECT_LE(relative_error(both.floats(), rms_norm_reference(x, weight, 4, 1e-6)), 1e-4);
}

}  // namespace
}  // namespace lynx::cuda
