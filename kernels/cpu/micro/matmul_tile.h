// Rows times weight panels. Included after lanes_*.h and lane_math.h.
#pragma once

namespace lynx {
namespace {

inline constexpr std::uint32_t kTileRows =
    8;  // 8 rows x 32 outputs: 16 accumulators of the 32 AVX-512 registers

// What a finished tile does with the first `columns` (at most 32) outputs of one panel and row.
inline void finish(Epilogue epilogue, float* out, std::uint32_t columns, Lanes low, Lanes high, float scale) {
  if (columns < kPanel && epilogue != Epilogue::kSiluMul) {  // a padded last panel: through a full-width copy
    float full[kPanel] = {};
    for (std::uint32_t i = 0; i < columns; ++i) full[i] = out[i];
    finish(epilogue, full, kPanel, low, high, scale);
    for (std::uint32_t i = 0; i < columns; ++i) out[i] = full[i];
    return;
  }
  switch (epilogue) {
    case Epilogue::kStore:
      store(out, low);
      store(out + kLanes, high);
      return;
    case Epilogue::kAdd:
      store(out, add(load(out), low));
      store(out + kLanes, add(load(out + kLanes), high));
      return;
    case Epilogue::kAddScaled:
      store(out, fma(splat(scale), low, load(out)));
      store(out + kLanes, fma(splat(scale), high, load(out + kLanes)));
      return;
    case Epilogue::kSiluMul:
      store(out, mul(silu(low), high));
      return;
  }
}

// kRows rows from `row` on, kPanels panels from `panel` on. Each output is one chain of multiply-adds over k
// = 0, 1, ...
template <int kRows, int kPanels>
inline void tile(const MatmulTask& task, std::uint32_t row, std::uint32_t panel) {
  const std::size_t panel_size = static_cast<std::size_t>(task.k) * kPanel;
  const std::uint16_t* w = task.panels + panel * panel_size;
  const std::ptrdiff_t ahead = task.prefetch == nullptr || row != 0 ? 0 : task.prefetch - task.panels;
  const float* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = task.x[row + r];

  Lanes acc[kRows][kPanels][2];
  for (auto& by_row : acc) {
    for (auto& by_panel : by_row) by_panel[0] = by_panel[1] = zero();
  }
  for (std::uint32_t k = 0; k < task.k; ++k, w += kPanel) {
    for (int p = 0; p < kPanels; ++p) {
      if (ahead != 0) __builtin_prefetch(w + p * panel_size + ahead);
      Lanes low;
      Lanes high;
      load_pairs(w + p * panel_size, low, high);
      for (int r = 0; r < kRows; ++r) {
        const Lanes value = splat(x[r][k]);
        acc[r][p][0] = fma(value, low, acc[r][p][0]);
        acc[r][p][1] = fma(value, high, acc[r][p][1]);
      }
    }
  }

  const std::uint32_t width = task.epilogue == Epilogue::kSiluMul ? kLanes : kPanel;
  for (int r = 0; r < kRows; ++r) {
    const float scale = task.scale == nullptr ? 1.0F : task.scale[row + r];
    for (int p = 0; p < kPanels; ++p) {
      const std::uint32_t first = (panel + p) * width;
      const std::uint32_t columns = task.columns - first < width ? task.columns - first : width;
      finish(task.epilogue, task.out[row + r] + task.first_column + first, columns, acc[r][p][0],
             acc[r][p][1], scale);
    }
  }
}

template <int kPanels>
inline void tile_rows(const MatmulTask& task, std::uint32_t row, std::uint32_t rows, std::uint32_t panel) {
  switch (rows) {
    case 1:
      return tile<1, kPanels>(task, row, panel);
    case 2:
      return tile<2, kPanels>(task, row, panel);
    case 3:
      return tile<3, 1>(task, row, panel);
    case 4:
      return tile<4, 1>(task, row, panel);
    case 5:
      return tile<5, 1>(task, row, panel);
    case 6:
      return tile<6, 1>(task, row, panel);
    case 7:
      return tile<7, 1>(task, row, panel);
    default:
      return tile<8, 1>(task, row, panel);
  }
}

// Panel by panel, so that a panel stays in the first-level cache for all rows. One or two rows take two
// panels at a time: enough independent chains to hide the latency of a multiply-add.
inline void matmul(const MatmulTask& task) {
  std::uint32_t panel = 0;
  if (task.rows <= 2) {
    for (; panel + 2 <= task.panel_count; panel += 2) tile_rows<2>(task, 0, task.rows, panel);
  }
  for (; panel < task.panel_count; ++panel) {
    for (std::uint32_t row = 0; row < task.rows; row += kTileRows) {
      tile_rows<1>(task, row, task.rows - row < kTileRows ? task.rows - row : kTileRows, panel);
    }
  }
}

}  // namespace
}  // namespace lynx
