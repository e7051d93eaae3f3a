#include "kernels/cuda/cuda_weights.h"

#include <cstring>
#include <stdexcept>

#include "common/core/check.h"

namespace lynx::cuda {
namespace {

std::size_t count_of(const HostTensor& tensor) { return tensor.rows() * tensor.cols(); }

// Returns when the bytes have left the host.
void send(std::byte* to, const HostTensor& tensor, std::vector<std::byte>& scratch, cudaStream_t stream) {
  const std::span<const std::byte> bytes = elements_as(tensor, Dtype::kBf16, scratch);
  check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync of weights");
}

}  // namespace

std::span<const std::byte> elements_as(const HostTensor& tensor, Dtype as, std::vector<std::byte>& scratch) {
  const std::size_t count = count_of(tensor);
  LYNX_CHECK(tensor.bytes.size() == count * bytes_of(tensor.dtype), tensor.name);
  if (tensor.dtype == as) return tensor.bytes;
  scratch.resize(count * bytes_of(as));
  for (std::size_t i = 0; i < count; ++i) {
    if (as == Dtype::kBf16) {
      float value = 0;
      std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
      const std::uint16_t bits = f32_to_bf16(value);
      std::memcpy(scratch.data() + i * sizeof bits, &bits, sizeof bits);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + i * sizeof bits, sizeof bits);
      const float value = bf16_to_f32(bits);
      std::memcpy(scratch.data() + i * sizeof value, &value, sizeof value);
    }
  }
  return scratch;
}

CudaMatrix::CudaMatrix(std::span<const HostTensor> parts, DeviceHeap& heap) {
  k = static_cast<std::uint32_t>(parts.front().cols());
  for (const HostTensor& part : parts) {
    LYNX_CHECK(part.cols() == k, part.name);
    n += static_cast<std::uint32_t>(part.rows());
  }
  if (k % 8 != 0)
    throw std::runtime_error(parts.front().name + ": rows of " + std::to_string(k) +
                             " elements: device 'cuda' needs a multiple of 8");
  memory = heap.take(std::size_t{n} * k * sizeof(std::uint16_t));
  std::vector<std::byte> scratch;
  std::byte* to = memory.get();
  for (const HostTensor& part : parts) {
    send(to, part, scratch, nullptr);
    to += count_of(part) * sizeof(std::uint16_t);
  }
  check(cudaStreamSynchronize(nullptr), "the copy of weights");
}

CudaExperts::CudaExperts(std::span<const ExpertTensors> tensors, DeviceHeap& heap, cudaStream_t stream) {
  experts = static_cast<std::uint32_t>(tensors.size());
  intermediate = static_cast<std::uint32_t>(tensors.front().gate.rows());
  hidden = static_cast<std::uint32_t>(tensors.front().gate.cols());
  if (const Status status = check_experts(shape()); !status)
    throw std::runtime_error(tensors.front().gate.name + ": " + status.error().message);
  const std::size_t packed = packed_expert_bytes(shape());
  const std::size_t matrix = std::size_t{hidden} * intermediate * sizeof(std::uint16_t);
  memory = heap.take(experts * packed);
  const DeviceMemory plain = heap.take(3 * matrix);
  const auto part = [&](int i) { return plain.get() + i * matrix; };
  std::vector<std::byte> scratch;
  for (std::uint32_t e = 0; e < experts; ++e) {
    int at = 0;
    for (const HostTensor* tensor : {&tensors[e].gate, &tensors[e].up, &tensors[e].down}) {
      LYNX_CHECK(count_of(*tensor) * sizeof(std::uint16_t) == matrix, tensor->name);
      send(part(at++), *tensor, scratch, stream);
    }
    pack_expert({.packed = memory.get() + e * packed,
                 .gate = reinterpret_cast<const std::uint16_t*>(part(0)),
                 .up = reinterpret_cast<const std::uint16_t*>(part(1)),
                 .down = reinterpret_cast<const std::uint16_t*>(part(2)),
                 .shape = shape()},
                stream);
  }
  check(cudaStreamSynchronize(stream), "the packing of experts");
}

}  // namespace lynx::cuda
