// Operations on one row at a time.
#include <algorithm>

#include "common/core/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace lynx {
namespace {

// Below this many elements the loop is over before a second worker is awake.
constexpr std::size_t kParallelElements = 16 * 1024;

bool worth_sharing(TensorView x) { return std::size_t{x.rows} * x.cols >= kParallelElements; }

}  // namespace

void CpuBackend::embed(TensorView out, TensorView table) {
  const std::span<const TokenId> tokens = step_.batch.tokens;
  LYNX_CHECK(out.rows == tokens.size() && out.cols == table.cols && table.dtype == Dtype::kBf16,
             "embed: shapes");
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    LYNX_CHECK(tokens[t] < table.rows, "embed: token outside the vocabulary");
    micro_.widen(out.f32_row(t), table.bf16_row(tokens[t]), table.cols);
  }
}

void CpuBackend::gather_rows(TensorView out, TensorView x) {
  const std::span<const std::uint32_t> rows = step_.batch.logit_rows;
  LYNX_CHECK(out.rows == rows.size() && out.cols == x.cols, "gather_rows: shapes");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    LYNX_CHECK(rows[i] < x.rows, "gather_rows: row outside the batch");
    std::copy_n(x.f32_row(rows[i]), x.cols, out.f32_row(i));
  }
}

void CpuBackend::rms_norm(TensorView out, TensorView x, TensorView weight, float eps) {
  LYNX_CHECK(out.rows == x.rows && out.cols == x.cols && weight.cols == x.cols, "rms_norm: shapes");
  LYNX_CHECK(x.cols % kLanes == 0, "rms_norm: rows of whole lanes");
  pool_.parallel_for(x.rows, worth_sharing(x), [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      micro_.rms_norm(out.f32_row(t), x.f32_row(t), weight.f32_row(0), x.cols, eps);
    }
  });
}

void CpuBackend::norm_rope(TensorView heads, TensorView weight, float eps, const RopeTable& rope) {
  const std::span<const std::uint32_t> positions = step_.positions;
  const std::uint32_t size = weight.cols;
  LYNX_CHECK(heads.cols % size == 0 && size % kLanes == 0 && rope.values.cols == size, "norm_rope: shapes");
  LYNX_CHECK(heads.rows == positions.size(), "norm_rope: one position per row");
  pool_.parallel_for(heads.rows, worth_sharing(heads), [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      LYNX_CHECK(positions[t] < rope.values.rows, "norm_rope: position outside the context");
      for (std::uint32_t first = 0; first < heads.cols; first += size) {
        float* head = heads.f32_row(t) + first;
        micro_.rms_norm(head, head, weight.f32_row(0), size, eps);
        micro_.rope(head, rope.values.f32_row(positions[t]), size);
      }
    }
  });
}

}  // namespace lynx
