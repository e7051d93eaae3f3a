#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/kernels/cpu/micro_matmul.h"

namespace lynx::testing {
namespace {

double dot(const MatmulCase& c, const MatmulData& data, std::uint32_t row, std::uint32_t output) {
  double sum = 0;
  for (std::uint32_t i = 0; i < c.k; ++i) {
    sum += double{data.x[std::size_t{row} * c.k + i]} * data.w[std::size_t{output} * c.k + i];
  }
  return sum;
}

double expected(const MatmulCase& c, const MatmulData& data, std::uint32_t row, std::uint32_t column) {
  const double product = dot(c, data, row, column);
  const double before = data.before[std::size_t{row} * c.columns + column];
  switch (c.epilogue) {
    case Epilogue::kStore:
      return product;
    case Epilogue::kAdd:
      return before + product;
    case Epilogue::kAddScaled:
      return before + data.scale[row] * product;
    case Epilogue::kSiluMul:
      return product / (1 + std::exp(-product)) * dot(c, data, row, c.columns + column);
  }
  return 0;
}

TEST(MicroMatmul, EqualsDoublePrecision) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const MatmulCase& c : matmul_cases()) {
      const MatmulData data(c);
      const std::vector<float> out = run_matmul(*kernels, c, data, 0, c.rows);
      for (std::uint32_t row = 0; row < c.rows; ++row) {
        for (std::uint32_t column = 0; column < c.columns; ++column) {
          ASSERT_NEAR(out[std::size_t{row} * c.columns + column], expected(c, data, row, column),
                      2e-5 * c.k + 1e-6)
              << kernels->name << " rows " << c.rows << " k " << c.k << " columns " << c.columns;
        }
      }
    }
  }
}

TEST(MicroMatmul, RowAloneHasTheSameBits) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const MatmulCase& c : matmul_cases()) {
      const MatmulData data(c);
      const std::vector<float> together = run_matmul(*kernels, c, data, 0, c.rows);
      for (std::uint32_t row = 0; row < c.rows; ++row) {
        const std::vector<float> alone = run_matmul(*kernels, c, data, row, 1);
        ASSERT_EQ(std::memcmp(&alone[std::size_t{row} * c.columns], &together[std::size_t{row} * c.columns],
                              c.columns * sizeof(float)),
                  0)
            << kernels->name;
      }
    }
  }
}

// A diverged row must give NaN or a finite number, never hang or trap; huge gates must not overflow to NaN.
TEST(MicroMatmul, SiluOfLargeGates) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const float gate : {-200.0F, -88.0F, 88.0F, 200.0F}) {
      std::vector<std::uint16_t> panel(kPanel);
      for (std::uint32_t i = 0; i < kLanes; ++i) {
        panel[2 * i] = f32_to_bf16(gate);
        panel[2 * i + 1] = f32_to_bf16(1);
      }
      const float one = 1;
      const float* x = &one;
      std::vector<float> out(kLanes);
      float* row = out.data();
      kernels->matmul({.x = &x,
                       .out = &row,
                       .panels = panel.data(),
                       .rows = 1,
                       .panel_count = 1,
                       .k = 1,
                       .columns = kLanes,
                       .epilogue = Epilogue::kSiluMul});
      for (const float value : out)
        EXPECT_NEAR(value, gate > 0 ? gate : 0, 1e-30) << kernels->name << " " << gate;
    }
  }
}

}  // namespace
}  // namespace lynx::testing
