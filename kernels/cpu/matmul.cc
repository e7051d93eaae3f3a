// Dense layers. The work is a grid of (panel, block of rows), panel by panel so that weights are read once,
// cut into equal contiguous shares. No share boundary changes a result: every output is computed whole by one
// worker.
#include <algorithm>

#include "common/core/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/packed_weights.h"

namespace lynx {
namespace {

constexpr std::size_t kParallelProducts = 32 * 1024;  // about a microsecond of one core
constexpr std::uint32_t kRowBlock = 64;

}  // namespace

void CpuBackend::matmul(TensorView out, TensorView x, const Matrix& w) {
  matmul_with(Epilogue::kStore, out, x, w);
}
void CpuBackend::matmul_add(TensorView out, TensorView x, const Matrix& w) {
  matmul_with(Epilogue::kAdd, out, x, w);
}

void CpuBackend::matmul_with(Epilogue epilogue, TensorView out, TensorView x, const Matrix& w) {
  const auto& packed = static_cast<const PackedMatrix&>(w);
  LYNX_CHECK(x.cols == w.k && out.cols == w.n && out.rows == x.rows, "matmul: shapes");
  scratch_.inputs.resize(x.rows);
  scratch_.outputs.resize(x.rows);
  for (std::uint32_t t = 0; t < x.rows; ++t) {
    scratch_.inputs[t] = x.f32_row(t);
    scratch_.outputs[t] = out.f32_row(t);
  }

  const std::uint32_t row_blocks = (x.rows + kRowBlock - 1) / kRowBlock;
  const bool parallel = std::size_t{x.rows} * w.n * w.k >= kParallelProducts;
  const auto share = [&](std::size_t begin, std::size_t end) {
    std::size_t item = begin;
    while (item < end) {
      const auto block = static_cast<std::uint32_t>(item % row_blocks);
      const auto panel = static_cast<std::uint32_t>(item / row_blocks);
      // With one block of rows neighbouring panels go in one call: few rows pair panels up.
      const auto panels = row_blocks == 1 ? static_cast<std::uint32_t>(end - item) : 1U;
      const std::uint32_t first_row = block * kRowBlock;
      micro_.matmul({.x = scratch_.inputs.data() + first_row,
                     .out = scratch_.outputs.data() + first_row,
                     .panels = packed.panel(panel),
                     .rows = std::min(kRowBlock, x.rows - first_row),
                     .panel_count = panels,
                     .k = w.k,
                     .first_column = panel * kPanel,
                     .columns = w.n - panel * kPanel,
                     .epilogue = epilogue});
      item += panels;
    }
  };
  pool_.parallel_for(std::size_t{packed.panels()} * row_blocks, parallel, share);
}

}  // namespace lynx
