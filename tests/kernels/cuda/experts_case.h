// A layer of experts with random weights, on both sides: the kernels, and plain loops over bf16 weights.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/experts_layout.h"
#include "kernels/dtype.h"
#include "tests/kernels/cuda/routed_batch.h"

namespace lynx::cuda {

class CudaExperts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = missing_gpu(); !why.empty()) GTEST_SKIP() << "no GPU: " << why;
  }
};

inline std::vector<std::uint16_t> random_bf16(std::size_t count, float spread, std::uint64_t seed) {
  std::vector<std::uint16_t> values(count);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (std::uint16_t& v : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const float unit = static_cast<float>(state >> 40) * 0x1p-24F - 0.5F;
    v = f32_to_bf16(unit * spread * 3.46F);  // uniform of that standard deviation
  }
  return values;
}

struct HostExpert {
  std::vector<std::uint16_t> gate, up, down;
};

// A layer with random weights, on both sides.
struct ExpertLayer {
  ExpertLayer(const ExpertShape& s, std::uint64_t seed)
      : shape(s), packed(packed_expert_bytes(s) * s.experts) {
    const std::size_t elements = std::size_t{s.hidden} * s.intermediate;
    for (std::uint32_t e = 0; e < s.experts; ++e) {
      const float in = 1.5F / std::sqrt(static_cast<float>(s.hidden));
      const float out = 1.0F / std::sqrt(static_cast<float>(s.intermediate));
      experts.push_back({random_bf16(elements, in, seed + 3 * e), random_bf16(elements, in, seed + 3 * e + 1),
                         random_bf16(elements, out, seed + 3 * e + 2)});
      const DeviceArray<std::uint16_t> gate(experts[e].gate), up(experts[e].up), down(experts[e].down);
      pack_expert({packed.get() + e * packed_expert_bytes(s), gate.get(), up.get(), down.get(), s}, nullptr);
      expect_ok(cudaDeviceSynchronize());
    }
  }

  ExpertShape shape;
  std::vector<HostExpert> experts;
  DeviceArray<std::byte> packed;
};

inline float dot(const std::uint16_t* w, const float* x, std::uint32_t n) {
  float lanes[8] = {};
  for (std::uint32_t i = 0; i < n; i += 8)
    for (std::uint32_t j = 0; j < 8; ++j) lanes[j] += bf16_to_f32(w[i + j]) * x[i + j];
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

inline void add_expert(std::vector<float>& out, const ExpertLayer& layer, const HostExpert& e, const float* x,
                       float weight) {
  const std::uint32_t h = layer.shape.hidden, inner = layer.shape.intermediate;
  std::vector<float> act(inner);
  for (std::uint32_t i = 0; i < inner; ++i) {
    const float gate = dot(&e.gate[std::size_t{i} * h], x, h);
    act[i] = gate / (1 + std::exp(-gate)) * dot(&e.up[std::size_t{i} * h], x, h);
  }
  for (std::uint32_t i = 0; i < h; ++i)
    out[i] += weight * dot(&e.down[std::size_t{i} * inner], act.data(), inner);
}

struct ExpertOutcome {
  std::vector<float> out;  // [B, H]
  std::vector<float> residual;
  ExpertPlan plan;
};

class ExpertRunner {
 public:
  ExpertRunner(const ExpertLayer& layer, std::uint32_t top_k, std::uint32_t max_rows)
      : layer_(layer), workspace_(experts_workspace_bytes(layer.shape, top_k, max_rows)) {
    workspace_.clear();
    const auto view = experts_workspace_view(workspace_.get(), layer.shape, top_k, max_rows);
    const auto counters = reinterpret_cast<std::byte*>(view.activations) - workspace_.get();
    expect_ok(cudaMemset(view.activations, 0xFF, workspace_.size() - static_cast<std::size_t>(counters)));
  }

  // Row r's input and residual depend on input_of(r) alone. Two calls in a row, the first into a copy:
  // counters must come back to zero.
  ExpertOutcome run(const RoutingCase& c, const std::vector<std::uint16_t>& x, bool prefill = false) {
    const std::uint32_t h = layer_.shape.hidden;
    RoutedBatch batch(c);
    prefill ? batch.prefill() : batch.decode();
    if (!hints.empty())
      expect_ok(cudaMemcpy(batch.device_plan().hints, hints.data(), hints.size() * sizeof(hints[0]),
                           cudaMemcpyHostToDevice));
    ExpertOutcome run;
    run.residual.resize(std::size_t{c.rows()} * h);
    for (std::size_t i = 0; i < run.residual.size(); ++i) run.residual[i] = bf16_to_f32(x[i]) * 0.125F;
    const DeviceArray<float> out(run.residual), again(run.residual);
    const DeviceArray<std::uint16_t> input(x);
    ExpertsArgs args{.out = again.get(),
                     .out_stride = h,
                     .x = input.get(),
                     .x_stride = h,
                     .packed = layer_.packed.get(),
                     .shape = layer_.shape,
                     .plan = batch.device_plan(),
                     .workspace = workspace_.get(),
                     .kernels = kernels_of_device(),
                     .prompt = prefill};
    experts_add(args, nullptr);
    args.out = out.get();
    experts_add(args, nullptr);
    run.out = out.download();
    EXPECT_EQ(std::memcmp(run.out.data(), again.download().data(), run.out.size() * 4), 0)
        << "not deterministic";
    run.plan = batch.plan();
    if (args.kernels == KernelSet::kHopper) {  // the others have no use for them
      for (const std::uint32_t hint : batch.hints()) EXPECT_EQ(hint, 0U) << "left for the next routing";
    }
    return run;
  }

  std::vector<std::uint32_t> hints;  // instead of routing's

 private:
  const ExpertLayer& layer_;
  DeviceArray<std::byte> workspace_;
};

inline RoutingCase batch_of(const ExpertShape& s, std::uint32_t top_k, std::uint32_t rows, std::uint32_t seed,
                            PolicyKind kind = PolicyKind::kOff) {
  return random_case(seed, rows, {.experts = s.experts, .top_k = top_k}, kind);
}

// ||out - want|| / ||want - residual|| over live rows; NaN never passes.
inline double relative_error(const ExpertLayer& layer, const RoutingCase& c,
                             const std::vector<std::uint16_t>& x, const ExpertOutcome& run) {
  const std::uint32_t h = layer.shape.hidden;
  const unsigned workers = std::max(1U, std::thread::hardware_concurrency());
  std::vector<double> errors(workers), norms(workers);
  const auto work = [&](unsigned worker) {
    for (std::uint32_t r = worker; r < c.rows(); r += workers) {
      if (c.live[r] == 0) continue;
      std::vector<float> input(h), want(h);
      for (std::uint32_t i = 0; i < h; ++i) input[i] = bf16_to_f32(x[std::size_t{r} * h + i]);
      for (std::uint32_t s = 0; s < run.plan.top_k; ++s) {
        const std::uint32_t e = run.plan.experts[r * run.plan.top_k + s];
        if (e != ExpertPlan::kNoExpert)
          add_expert(want, layer, layer.experts[e], input.data(), run.plan.weights[r * run.plan.top_k + s]);
      }
      for (std::uint32_t i = 0; i < h; ++i) {
        const double got = double{run.out[std::size_t{r} * h + i]} - run.residual[std::size_t{r} * h + i];
        errors[worker] += (got - want[i]) * (got - want[i]);
        norms[worker] += double{want[i]} * want[i];
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < workers; ++w) threads.emplace_back(work, w);
  for (std::thread& t : threads) t.join();
  double error = 0, norm = 0;
  for (unsigned w = 0; w < workers; ++w) error += errors[w], norm += norms[w];
  return std::sqrt(error / norm);
}

}  // namespace lynx::cuda
