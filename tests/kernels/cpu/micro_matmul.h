// Matrix products of the micro kernels, on data with a plain copy for a reference.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/dtype.h"
#include "tests/kernels/cpu/micro_data.h"

namespace lynx::testing {

struct MatmulCase {
  std::uint32_t rows, k, columns;
  Epilogue epilogue;
};

// Weights by output for the reference, and packed for the kernels. SiluMul has a gate and an up per column.
struct MatmulData {
  explicit MatmulData(const MatmulCase& c)
      : x(random_values(std::size_t{c.rows} * c.k, 1)),
        w(random_values(std::size_t{c.columns} * outputs_per_column(c) * c.k, 2)),
        before(random_values(std::size_t{c.rows} * c.columns, 3)),
        scale(random_values(c.rows, 4)) {
    for (float& value : w) value = bf16_to_f32(f32_to_bf16(value));
    const std::uint32_t per_panel = c.epilogue == Epilogue::kSiluMul ? kLanes : kPanel;
    panels = (c.columns + per_panel - 1) / per_panel;
    packed.resize(std::size_t{panels} * c.k * kPanel);
    for (std::uint32_t n = 0; n < c.columns * outputs_per_column(c); ++n) {
      const std::uint32_t column = n % c.columns;
      const std::uint32_t output = column % per_panel + n / c.columns * kLanes;
      for (std::uint32_t i = 0; i < c.k; ++i) {
        packed[(std::size_t{column / per_panel} * c.k + i) * kPanel + 2 * (output % kLanes) +
               output / kLanes] = f32_to_bf16(w[std::size_t{n} * c.k + i]);
      }
    }
  }
  static std::uint32_t outputs_per_column(const MatmulCase& c) {
    return c.epilogue == Epilogue::kSiluMul ? 2 : 1;
  }

  std::vector<float> x, w, before, scale;
  std::vector<std::uint16_t> packed;
  std::uint32_t panels = 0;
};

inline std::vector<float> run_matmul(const MicroKernels& kernels, const MatmulCase& c, const MatmulData& data,
                                     std::uint32_t first_row, std::uint32_t rows) {
  std::vector<float> out = data.before;
  std::vector<const float*> in_rows;
  std::vector<float*> out_rows;
  for (std::uint32_t r = first_row; r < first_row + rows; ++r) {
    in_rows.push_back(data.x.data() + std::size_t{r} * c.k);
    out_rows.push_back(out.data() + std::size_t{r} * c.columns);
  }
  kernels.matmul({.x = in_rows.data(),
                  .out = out_rows.data(),
                  .scale = data.scale.data() + first_row,
                  .panels = data.packed.data(),
                  .rows = rows,
                  .panel_count = data.panels,
                  .k = c.k,
                  .columns = c.columns,
                  .epilogue = c.epilogue});
  return out;
}

inline std::vector<MatmulCase> matmul_cases() {
  std::vector<MatmulCase> out;
  for (const std::uint32_t rows : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 17U}) {
    for (const std::uint32_t k : {1U, 48U, 129U}) {
      for (const std::uint32_t columns : {8U, 32U, 56U, 96U}) {
        for (const Epilogue e : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kAddScaled}) {
          out.push_back({rows, k, columns, e});
        }
      }
      out.push_back({rows, k, 48, Epilogue::kSiluMul});
    }
  }
  return out;
}

}  // namespace lynx::testing
