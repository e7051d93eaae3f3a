// Row-major bf16 weights into units; see experts_layout.h. Runs at load, once per expert.
#include "kernels/cuda/experts_layout.h"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace {

constexpr std::uint32_t kPiece = 16;  // bytes that one thread writes
constexpr std::uint32_t kPiecesOfUnit = kUnitBytes / kPiece;

// Two neighbouring inputs of a row; zero outside the matrix, where a unit is wider than it.
__device__ std::uint32_t pair_at(const std::uint16_t* row, std::uint32_t inputs, std::uint32_t k) {
  return k < inputs ? *reinterpret_cast<const std::uint32_t*>(row + k) : 0;
}

__global__ void pack_kernel(PackArgs args, MatrixLayout m, bool gate_up) {
  const std::uint32_t unit = blockIdx.x;
  const std::uint32_t unit_row = unit / m.unit_cols;
  const std::uint32_t unit_col = unit % m.unit_cols;
  auto* to = reinterpret_cast<uint4*>(args.packed + m.expert_offset + unit_offset(m, unit_row, unit_col));
  for (std::uint32_t piece = threadIdx.x; piece < kPiecesOfUnit; piece += blockDim.x) {
    const std::uint32_t lane = piece % 32;
    const std::uint32_t half = piece / 32 % 2;
    const std::uint32_t tile = piece / 64 % 2;
    const std::uint32_t block = piece / 128;
    const std::uint32_t k = unit_col * kUnitInputs + block * kBlockInputs + lane % 4 * 8 + half * 4;
    const std::uint16_t* matrix = !gate_up ? args.down : tile == 0 ? args.gate : args.up;
    const std::uint32_t row = (gate_up ? unit_row * 16 : unit_row * 32 + tile * 16) + lane / 4;
    const std::uint16_t* near = matrix + std::size_t{row} * m.inputs;
    const std::uint16_t* far = near + std::size_t{8} * m.inputs;
    to[piece] = {pair_at(near, m.inputs, k), pair_at(far, m.inputs, k), pair_at(near, m.inputs, k + 2),
                 pair_at(far, m.inputs, k + 2)};
  }
}

void pack(const PackArgs& args, const MatrixLayout& m, bool gate_up, cudaStream_t stream) {
  launch("pack experts", pack_kernel, Shape{dim3(m.unit_rows * m.unit_cols), dim3(128)}, stream,
         Overlap::kNone, args, m, gate_up);
}

}  // namespace

void pack_expert(const PackArgs& args, cudaStream_t stream) {
  pack(args, gate_up_layout(args.shape), true, stream);
  pack(args, down_layout(args.shape), false, stream);
}

}  // namespace lynx::cuda
