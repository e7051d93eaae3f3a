// Where packed experts have their bytes, and which shapes can be packed. Needs no GPU.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/experts.h"
#include "kernels/cuda/experts_layout.h"

namespace lynx::cuda {
namespace {

// Every unit has a place of its own, and the four of a group lie side by side.
TEST(CudaExpertsLayout, UnitsFillTheMatrix) {
  for (const ExpertShape& shape :
       {ExpertShape{1, 2048, 768}, ExpertShape{1, 96, 160}, ExpertShape{1, 32, 32}})
    for (const MatrixLayout& m : {gate_up_layout(shape), down_layout(shape)}) {
      std::vector<bool> taken(matrix_bytes(m) / kUnitBytes);
      for (std::uint32_t row = 0; row < m.unit_rows; ++row)
        for (std::uint32_t col = 0; col < m.unit_cols; ++col) {
          const std::size_t at = unit_offset(m, row, col);
          ASSERT_EQ(at % kUnitBytes, 0U);
          ASSERT_LT(at / kUnitBytes, taken.size());
          EXPECT_FALSE(taken[at / kUnitBytes]);
          taken[at / kUnitBytes] = true;
          EXPECT_TRUE(row % kGroupUnits == 0 || at == unit_offset(m, row - 1, col) + kUnitBytes);
        }
    }
}

// Whatever the rows and k: a step may be given up in any of them.
TEST(CudaExpertsLayout, CountsComeFirst) {
  const ExpertShape shape{128, 2048, 768};
  std::vector<std::byte> memory(experts_workspace_bytes(shape, 8, 64));
  for (const std::uint32_t rows : {1U, 64U}) {
    const ExpertsWorkspace view = experts_workspace_view(memory.data(), shape, 8, rows);
    EXPECT_EQ(reinterpret_cast<std::byte*>(view.finished_blocks), memory.data());
    EXPECT_GE(reinterpret_cast<std::byte*>(view.lone_blocks),
              reinterpret_cast<std::byte*>(view.down_done + shape.hidden / kUnitOutputs));
    EXPECT_EQ(reinterpret_cast<std::byte*>(view.lone_blocks) - memory.data(),
              static_cast<std::ptrdiff_t>(experts_count_bytes(shape)));
  }
}

TEST(CudaExpertsLimits, NameTheField) {
  EXPECT_TRUE(check_experts({128, 2048, 768}).ok());
  EXPECT_NE(check_experts({8, 100, 64}).error().message.find("hidden"), std::string::npos);
  EXPECT_NE(check_experts({8, 64, 100}).error().message.find("intermediate"), std::string::npos);
}

}  // namespace
}  // namespace lynx::cuda
