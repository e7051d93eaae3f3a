// How the expert kernels see weights, tasks and workspace. Shared by the packing, the kernels and their
// launchers.
//
// A *unit* is 32 outputs x 128 inputs of weights, 8 KiB, in the order in which the tensor cores take them:
// [4 blocks of 32 inputs][2 tiles of 16 outputs][2 halves][32 lanes][16 bytes]. In the gate-up matrix the
// first tile of a unit is 16 rows of gate and the second the same 16 rows of up, so one block has both for
// SiLU. Within 32 inputs, lane 4g + q holds inputs 8q .. 8q + 7 of outputs g and g + 8: half h takes inputs
// 8q + 4h .. + 3. The activations are then read as 16 plain bytes a lane, and a sum over k does not care
// about the order of k.
//
// A matrix is [M / 32] by [ceil(K / 128)] units; an expert is its gate-up matrix, then its down matrix. Four
// neighbouring units of outputs lie interleaved, [M / 128][ceil(K / 128)][4], so that what a stage of a task
// reads lies in one piece of 32 KiB, whose DRAM pages are opened once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/experts.h"

#ifdef __CUDACC__
#define LYNX_LAYOUT_FN __host__ __device__ constexpr
#else
#define LYNX_LAYOUT_FN constexpr
#endif

namespace lynx::cuda {

inline constexpr std::uint32_t kMaxExpertsOfLayer = 512;
inline constexpr std::uint32_t kUnitOutputs = 32;
inline constexpr std::uint32_t kUnitInputs = 128;
inline constexpr std::uint32_t kUnitBytes = kUnitOutputs * kUnitInputs * 2;
inline constexpr std::uint32_t kGroupUnits = 4;    // units of outputs that lie interleaved
inline constexpr std::uint32_t kBlockInputs = 32;  // what one lane's 16 bytes of an activation row belong to

struct MatrixLayout {
  std::uint32_t inputs = 0;       // K, a multiple of 32
  std::uint32_t unit_rows = 0;    // M / 32
  std::uint32_t unit_cols = 0;    // ceil(K / 128)
  std::uint32_t parts = 1;        // tasks that share the inputs; the last may have fewer than the others
  std::uint32_t part_cols = 0;    // unit_cols of a part
  std::size_t expert_offset = 0;  // bytes from the start of the expert
};

LYNX_LAYOUT_FN std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

LYNX_LAYOUT_FN std::size_t matrix_bytes(const MatrixLayout& m) {
  return std::size_t{m.unit_rows} * m.unit_cols * kUnitBytes;
}
// Units in the group of unit `row` of outputs: the last group may have fewer.
LYNX_LAYOUT_FN std::uint32_t group_units(const MatrixLayout& m, std::uint32_t row) {
  const std::uint32_t left = m.unit_rows - row / kGroupUnits * kGroupUnits;
  return left < kGroupUnits ? left : kGroupUnits;
}
// Bytes from a unit to the next inputs of the same outputs.
LYNX_LAYOUT_FN std::uint32_t column_bytes(const MatrixLayout& m, std::uint32_t row) {
  return group_units(m, row) * kUnitBytes;
}
// Bytes from the start of the matrix to the unit of outputs `row` and inputs `col`.
LYNX_LAYOUT_FN std::size_t unit_offset(const MatrixLayout& m, std::uint32_t row, std::uint32_t col) {
  const std::uint32_t first = row / kGroupUnits * kGroupUnits;
  return (std::size_t{first} * m.unit_cols + row % kGroupUnits) * kUnitBytes +
         std::size_t{col} * column_bytes(m, row);
}
LYNX_LAYOUT_FN MatrixLayout gate_up_layout(const ExpertShape& s) {
  const std::uint32_t cols = ceil_div(s.hidden, kUnitInputs);
  return {s.hidden, 2 * s.intermediate / kUnitOutputs, cols, 1, cols, 0};
}
// A long sum is cut in parts of at most 4096 inputs: or the last tasks of a layer would keep a few blocks
// busy while the others wait. The cut depends on the shape alone, and so do the bits of a row.
LYNX_LAYOUT_FN MatrixLayout down_layout(const ExpertShape& s) {
  const std::uint32_t cols = ceil_div(s.intermediate, kUnitInputs);
  const std::uint32_t parts = ceil_div(cols, 4096 / kUnitInputs);
  return {s.intermediate, s.hidden / kUnitOutputs, cols,
          parts,          ceil_div(cols, parts),   matrix_bytes(gate_up_layout(s))};
}

// Rows of the activations are padded to whole cache lines, so that no line holds rows of two experts.
LYNX_LAYOUT_FN std::uint32_t activation_stride(const ExpertShape& s) {
  return ceil_div(s.intermediate, 64) * 64;
}

struct ExpertsWorkspace {
  std::uint32_t* finished_blocks = nullptr;   // [1] blocks that have left
  std::uint32_t* next_task = nullptr;         // [1] claimed beyond the first of each block
  std::uint32_t* gate_up_done = nullptr;      // [N] finished gate-up tasks of active expert i; of prompts on
                                              // Hopper: two words that count claimed tiles
  std::uint32_t* down_done = nullptr;         // [H / 32] finished down tasks of 32 outputs
  std::uint64_t* lone_blocks = nullptr;       // [1] blocks of the kernel for a lone row that ever started:
                                              // as many in each launch, or its tags would not agree
  std::uint64_t* lone_activations = nullptr;  // [k, I / 2] its two bf16 and a tag
  std::uint64_t* lone_outputs = nullptr;      // [k, H] its weighted outputs and a tag
  std::uint16_t* activations = nullptr;       // [pairs, activation_stride] bf16
  float* partial = nullptr;                   // [B, k, parts, H] weighted outputs of each pair; of prompts on
                                              // Hopper: the ordered rows, then [B, k, H] bf16
  std::size_t bytes = 0;
};

ExpertsWorkspace experts_workspace_view(std::byte* memory, const ExpertShape& shape, std::uint32_t top_k,
                                        std::uint32_t rows);

}  // namespace lynx::cuda
