// The MoE layer of the device, routing and experts, against CpuBackend: the reference of every device.
#include <algorithm>
#include <cmath>
#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/experts.h"
#include "tests/kernels/cuda/parity.h"
#include "tests/kernels/cuda/routed_batch.h"

namespace lynx::cuda {
namespace {

class CudaMoeParity : public GpuTest {};

HostTensor random_weights(std::uint64_t rows, std::uint64_t cols) {
  const auto values = std::make_shared<std::vector<std::uint16_t>>();
  const float spread = 1.3F / std::sqrt(static_cast<float>(cols));
  for (const float value : random_floats(rows * cols, fresh_seed(), spread))
    values->push_back(f32_to_bf16(value));
  return {.name = "random",
          .dtype = Dtype::kBf16,
          .shape = {rows, cols},
          .bytes = std::as_bytes(std::span(*values)),
          .owner = values};
}

DeviceArray<std::uint16_t> on_device(const HostTensor& tensor) {
  std::vector<std::uint16_t> values(tensor.bytes.size() / 2);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return DeviceArray<std::uint16_t>(values);
}

// A layer's weights on both sides.
struct Layer {
  explicit Layer(const ExpertShape& s)
      : shape(s),
        cpu(std::max(1U, std::thread::hardware_concurrency()), best_micro_kernels()),
        packed(packed_expert_bytes(s) * s.experts) {
    std::vector<ExpertTensors> tensors;
    for (std::uint32_t e = 0; e < s.experts; ++e) {
      tensors.push_back({random_weights(s.intermediate, s.hidden), random_weights(s.intermediate, s.hidden),
                         random_weights(s.hidden, s.intermediate)});
      const auto gate = on_device(tensors[e].gate), up = on_device(tensors[e].up),
                 down = on_device(tensors[e].down);
      pack_expert({packed.get() + e * packed_expert_bytes(s), gate.get(), up.get(), down.get(), s}, nullptr);
      expect_ok(cudaDeviceSynchronize());
    }
    weights = cpu.load_experts(tensors);
  }

  ExpertShape shape;
  CpuBackend cpu;
  std::unique_ptr<ExpertWeights> weights;
  DeviceArray<std::byte> packed;
};

TensorView view_of(std::vector<float>& values, std::uint32_t cols) {
  return {reinterpret_cast<std::byte*>(values.data()), Dtype::kF32,
          static_cast<std::uint32_t>(values.size() / cols), cols, cols};
}

std::vector<float> on_cpu(Layer& layer, const RoutingCase& c, std::vector<float> x,
                          std::vector<float> residual) {
  CpuPlans plans;
  plans.shape = c.shape;
  plans.layers = {c.plan()};
  layer.cpu.experts_add(view_of(residual, layer.shape.hidden), view_of(x, layer.shape.hidden), *layer.weights,
                        plans, 0);
  return residual;
}

std::vector<float> on_gpu(const Layer& layer, const RoutedBatch& batch, const std::vector<float>& x,
                          const std::vector<float>& residual) {
  const std::uint32_t hidden = layer.shape.hidden;
  const auto rows = static_cast<std::uint32_t>(x.size() / hidden);
  const DevicePlan& plan = batch.device_plan();
  const DeviceMatrix input(Dtype::kBf16, rows, hidden, x, 8);
  const DeviceArray<float> out(residual);
  DeviceArray<std::byte> workspace(experts_workspace_bytes(layer.shape, plan.top_k, rows));
  workspace.clear();
  experts_add({.out = out.get(),
               .out_stride = hidden,
               .x = input.view().bf16_row(0),
               .x_stride = input.view().stride,
               .packed = layer.packed.get(),
               .shape = layer.shape,
               .plan = plan,
               .workspace = workspace.get(),
               .kernels = kernels_of_device(),
               .prompt = rows > kMaxRouteRows},
              nullptr);
  return out.download();
}

// Plans are equal; what the experts add to the residual differs by at most 1e-2.
void expect_same_layer(Layer& layer, const RoutingCase& c) {
  SCOPED_TRACE(std::string(to_string(c.policy.kind)) + " k=" + std::to_string(c.shape.top_k) +
               " B=" + std::to_string(c.rows()));
  const std::size_t count = std::size_t{c.rows()} * layer.shape.hidden;
  const std::vector<float> x = rounded_to_bf16(random_floats(count, fresh_seed()));
  const std::vector<float> residual = random_floats(count, fresh_seed(), 0.1F);
  RoutedBatch batch(c);
  c.rows() > kMaxRouteRows ? batch.prefill() : batch.decode();
  ASSERT_TRUE(same_plan(batch.plan(), c.plan()));
  const std::vector<float> want = on_cpu(layer, c, x, residual);
  std::vector<float> got = on_gpu(layer, batch, x, residual);
  std::vector<double> added(count);
  for (std::size_t i = 0; i < count; ++i) {
    added[i] = double{want[i]} - residual[i];
    got[i] -= residual[i];
  }
  EXPECT_LE(relative_error(got, added), 1e-2);
}

TEST_F(CudaMoeParity, DecodeUnderEveryPolicy) {
  Layer layer({64, 256, 96});
  for (const std::uint32_t top_k : {1U, 6U})
    for (const PolicyKind kind :
         {PolicyKind::kOff, PolicyKind::kLynx, PolicyKind::kShare, PolicyKind::kEnergy, PolicyKind::kOea,
          PolicyKind::kXshare, PolicyKind::kTopKReduced})
      for (const std::uint32_t rows : {1U, 5U, 16U, 33U, 64U}) {
        RoutingCase c = random_case(rows + top_k, rows, {.experts = 64, .top_k = top_k}, kind);
        if (rows > 4) c.live[rows - 1] = 0;
        expect_same_layer(layer, c);
      }
}

TEST_F(CudaMoeParity, DimensionsOfModels) {
  for (const ExpertShape& shape : {ExpertShape{16, 2048, 768}, ExpertShape{8, 2048, 1408}}) {
    Layer layer(shape);
    const RouterShape router = {.experts = shape.experts, .top_k = 4};
    for (const std::uint32_t rows : {1U, 8U, 32U})
      expect_same_layer(layer, random_case(rows, rows, router, PolicyKind::kLynx));
    expect_same_layer(layer, random_case(130, 130, router, PolicyKind::kOff));  // a prompt
  }
}

TEST_F(CudaMoeParity, Prefill) {
  Layer layer({16, 256, 160});
  for (const std::uint32_t rows : {65U, 300U, 700U})
    expect_same_layer(layer, random_case(rows, rows, {.experts = 16, .top_k = 4}, PolicyKind::kOff));
}

}  // namespace
}  // namespace lynx::cuda
