#include "kernels/cpu/packed_weights.h"

#include <cstring>
#include <stdexcept>

#include "common/core/check.h"
#include "kernels/cpu/aligned.h"
#include "kernels/cpu/micro/micro_kernels.h"

namespace lynx {
namespace {

// Writes row `row` of a [.., k] tensor as output `output` of a panel.
void pack_output(std::uint16_t* panel, std::uint32_t output, const HostTensor& tensor, std::size_t row,
                 std::size_t k) {
  std::uint16_t* out = panel + 2 * (output % kLanes) + output / kLanes;
  for (std::size_t i = 0; i < k; ++i) out[i * kPanel] = bf16_at(tensor, row * k + i);
}

void check_shape(const HostTensor& tensor, std::uint64_t rows, std::uint64_t cols) {
  LYNX_CHECK(tensor.rows() == rows && tensor.cols() == cols, tensor.name);
  LYNX_CHECK(tensor.bytes.size() == rows * cols * bytes_of(tensor.dtype), tensor.name);
}

}  // namespace

std::uint16_t bf16_at(const HostTensor& tensor, std::size_t i) {
  if (tensor.dtype == Dtype::kBf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + i * sizeof(bits), sizeof(bits));  // files do not align tensors
    return bits;
  }
  float value = 0;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof(value), sizeof(value));
  return f32_to_bf16(value);
}

PackedMatrix::PackedMatrix(std::span<const HostTensor> parts) {
  k = static_cast<std::uint32_t>(parts.front().cols());
  for (const HostTensor& part : parts) {
    check_shape(part, part.rows(), k);
    n += static_cast<std::uint32_t>(part.rows());
  }
  data_ = allocate_aligned(std::size_t{panels()} * k * kPanel * sizeof(std::uint16_t));
  std::uint32_t output = 0;
  for (const HostTensor& part : parts) {
    for (std::size_t row = 0; row < part.rows(); ++row, ++output) {
      pack_output(const_cast<std::uint16_t*>(panel(output / kPanel)), output % kPanel, part, row, k);
    }
  }
}

std::uint32_t PackedMatrix::panels() const { return (n + kPanel - 1) / kPanel; }

const std::uint16_t* PackedMatrix::panel(std::uint32_t index) const {
  return reinterpret_cast<const std::uint16_t*>(data_.get()) + std::size_t{index} * k * kPanel;
}

PackedExperts::PackedExperts(std::span<const ExpertTensors> tensors) {
  experts = static_cast<std::uint32_t>(tensors.size());
  intermediate = static_cast<std::uint32_t>(tensors.front().gate.rows());
  hidden = static_cast<std::uint32_t>(tensors.front().gate.cols());
  if (intermediate % kLanes != 0) {
    throw std::runtime_error(tensors.front().gate.name +
                             ": the CPU backend needs an expert size that is a multiple of 16");
  }
  data_ = allocate_aligned(experts * expert_size() * sizeof(std::uint16_t));
  for (std::uint32_t e = 0; e < experts; ++e) {
    check_shape(tensors[e].gate, intermediate, hidden);
    check_shape(tensors[e].up, intermediate, hidden);
    check_shape(tensors[e].down, hidden, intermediate);
    for (std::uint32_t i = 0; i < intermediate; ++i) {
      auto* panel = const_cast<std::uint16_t*>(gate_up(e, i / kLanes));
      pack_output(panel, i % kLanes, tensors[e].gate, i, hidden);
      pack_output(panel, kLanes + i % kLanes, tensors[e].up, i, hidden);
    }
    for (std::uint32_t h = 0; h < hidden; ++h) {
      pack_output(const_cast<std::uint16_t*>(down(e, h / kPanel)), h % kPanel, tensors[e].down, h,
                  intermediate);
    }
  }
}

std::uint32_t PackedExperts::down_panels() const { return (hidden + kPanel - 1) / kPanel; }
std::size_t PackedExperts::gate_up_size() const { return std::size_t{2} * intermediate * hidden; }
std::size_t PackedExperts::expert_size() const {
  return gate_up_size() + std::size_t{down_panels()} * intermediate * kPanel;
}

const std::uint16_t* PackedExperts::gate_up(std::uint32_t expert, std::uint32_t panel) const {
  return reinterpret_cast<const std::uint16_t*>(data_.get()) + expert * expert_size() +
         std::size_t{panel} * hidden * kPanel;
}

const std::uint16_t* PackedExperts::down(std::uint32_t expert, std::uint32_t panel) const {
  return reinterpret_cast<const std::uint16_t*>(data_.get()) + expert * expert_size() + gate_up_size() +
         std::size_t{panel} * intermediate * kPanel;
}

}  // namespace lynx
