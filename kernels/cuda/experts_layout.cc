#include "kernels/cuda/experts_layout.h"

#include <string>

namespace lynx::cuda {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

Status multiple_of_32(const char* field, std::uint32_t value) {
  if (value > 0 && value % 32 == 0) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      std::string(field) + ": the CUDA expert kernels need a multiple of 32, got " + std::to_string(value)};
}

}  // namespace

Status check_experts(const ExpertShape& shape) {
  if (shape.experts == 0 || shape.experts > kMaxExpertsOfLayer)
    return Error{ErrorCode::kInvalidArgument, "experts: the CUDA expert kernels take 1 to " +
                                                  std::to_string(kMaxExpertsOfLayer) + ", got " +
                                                  std::to_string(shape.experts)};
  if (Status s = multiple_of_32("hidden size", shape.hidden); !s.ok()) return s;
  if (shape.hidden > 32768)
    return Error{ErrorCode::kInvalidArgument, "hidden size: the CUDA expert kernels take up to 32768, got " +
                                                  std::to_string(shape.hidden)};
  return multiple_of_32("expert intermediate size", shape.intermediate);
}

std::size_t packed_expert_bytes(const ExpertShape& shape) {
  return matrix_bytes(gate_up_layout(shape)) + matrix_bytes(down_layout(shape));
}

ExpertsWorkspace experts_workspace_view(std::byte* memory, const ExpertShape& shape, std::uint32_t top_k,
                                        std::uint32_t rows) {
  const std::size_t pairs = std::size_t{rows} * top_k;
  ExpertsWorkspace view;
  const auto take = [&]<typename T>(T*& part, std::size_t count) {
    if (memory != nullptr) part = reinterpret_cast<T*>(memory + view.bytes);
    view.bytes += aligned(count * sizeof(T));
  };
  // Counters first: they must lie in the same place for every number of rows. See experts_count_bytes.
  take(view.finished_blocks, 1);
  take(view.next_task, 1);
  take(view.gate_up_done, shape.experts);
  take(view.down_done, shape.hidden / kUnitOutputs);
  take(view.lone_blocks, 1);
  take(view.lone_activations, std::size_t{top_k} * shape.intermediate / 2);
  take(view.lone_outputs, std::size_t{top_k} * shape.hidden);
  take(view.activations, pairs * activation_stride(shape));
  take(view.partial, pairs * down_layout(shape).parts * shape.hidden);
  return view;
}

std::size_t experts_workspace_bytes(const ExpertShape& shape, std::uint32_t top_k, std::uint32_t max_rows) {
  return experts_workspace_view(nullptr, shape, top_k, max_rows).bytes;
}

std::size_t experts_count_bytes(const ExpertShape& shape) {
  constexpr std::size_t kCount = sizeof(std::uint32_t);
  return 2 * aligned(kCount) + aligned(shape.experts * kCount) +
         aligned(shape.hidden / kUnitOutputs * kCount);
}

}  // namespace lynx::cuda
