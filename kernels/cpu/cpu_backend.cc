#include "kernels/cpu/cpu_backend.h"

#include "common/core/check.h"
#include "kernels/cpu/aligned.h"
#include "kernels/cpu/packed_weights.h"
#include "kernels/lynx/reference.h"

namespace lynx {

CpuBackend::CpuBackend(unsigned threads, const MicroKernels& micro) : micro_(micro), pool_(threads) {
  scratch_.workers.resize(threads);
}

std::string CpuBackend::description() const {
  return std::string("cpu ") + micro_.name + ", " + std::to_string(pool_.size()) + " threads";
}

Tensor CpuBackend::allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) {
  DeviceMemory memory = allocate_aligned(std::size_t{rows} * cols * bytes_of(dtype));
  const TensorView view{memory.get(), dtype, rows, cols, cols};
  return {std::move(memory), view};
}

Tensor CpuBackend::upload(const HostTensor& tensor, Dtype as) {
  Tensor out =
      allocate(as, static_cast<std::uint32_t>(tensor.rows()), static_cast<std::uint32_t>(tensor.cols()));
  const std::size_t count = tensor.rows() * tensor.cols();
  LYNX_CHECK(tensor.bytes.size() == count * bytes_of(tensor.dtype), tensor.name);
  if (tensor.dtype == as) {
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), out.view.data);
    return out;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t bits = bf16_at(tensor, i);
    if (as == Dtype::kBf16) {
      out.view.bf16_row(0)[i] = bits;
    } else {
      out.view.f32_row(0)[i] = bf16_to_f32(bits);  // exact: the source is bf16
    }
  }
  return out;
}

std::unique_ptr<Matrix> CpuBackend::load_matrix(std::span<const HostTensor> parts) {
  return std::make_unique<PackedMatrix>(parts);
}

std::unique_ptr<ExpertWeights> CpuBackend::load_experts(std::span<const ExpertTensors> experts) {
  return std::make_unique<PackedExperts>(experts);
}

std::unique_ptr<KvPool> CpuBackend::attach_kv(const PageLayout& layout, std::span<std::byte> host) {
  LYNX_CHECK(host.size() == layout.pool_bytes(), "the CPU computes on the host's KV pool");
  return std::make_unique<KvPool>(layout, host);
}

std::unique_ptr<RoutingPlans> CpuBackend::make_plans(const RouterShape& shape, std::uint32_t,
                                                     std::uint32_t layers) {
  auto plans = std::make_unique<CpuPlans>();
  plans->shape = shape;
  plans->layers.resize(layers);
  return plans;
}

void CpuBackend::route(RoutingPlans& plans, std::uint32_t layer, TensorView logits) {
  auto& out = static_cast<CpuPlans&>(plans);
  LYNX_CHECK(logits.stride == logits.cols && logits.cols == out.shape.experts,
             "router logits are dense [T, E]");
  route_reference(out.layers.at(layer), {logits.f32_row(0), std::size_t{logits.rows} * logits.cols},
                  out.shape, step_.batch.policy, {step_.live, step_.batch.exact_rows});
}

void CpuBackend::read_plan(const RoutingPlans& plans, std::uint32_t layer, ExpertPlan& out) {
  out = static_cast<const CpuPlans&>(plans).layers.at(layer);
}

}  // namespace lynx
