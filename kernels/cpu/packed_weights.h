// Weights as the micro kernels read them: bf16 panels of 32 outputs (see micro_kernels.h), packed once at
// load. f32 tensors are rounded to bf16: the engine stores one width.
#pragma once

#include <span>

#include "kernels/backend.h"

namespace lynx {

struct PackedMatrix final : Matrix {
  explicit PackedMatrix(std::span<const HostTensor> parts);  // [n_i, k] each, stacked by rows

  std::uint32_t panels() const;
  const std::uint16_t* panel(std::uint32_t index) const;  // [k][32]

 private:
  DeviceMemory data_;
};

// Per expert: I/16 panels that pair 16 gates with their 16 ups, [H][32]; then ceil(H/32) panels of down,
// [I][32].
struct PackedExperts final : ExpertWeights {
  explicit PackedExperts(std::span<const ExpertTensors> tensors);

  std::uint32_t gate_up_panels() const { return intermediate / 16; }
  std::uint32_t down_panels() const;
  const std::uint16_t* gate_up(std::uint32_t expert, std::uint32_t panel) const;
  const std::uint16_t* down(std::uint32_t expert, std::uint32_t panel) const;

 private:
  std::size_t gate_up_size() const;  // elements
  std::size_t expert_size() const;
  DeviceMemory data_;
};

// Element i of a dense host tensor, rounded to bf16.
std::uint16_t bf16_at(const HostTensor& tensor, std::size_t i);

}  // namespace lynx
