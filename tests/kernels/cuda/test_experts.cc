// The expert kernel against plain loops over bf16 weights.
#include <cmath>
#include <cstring>
#include <thread>

#include "kernels/cuda/experts_layout.h"
#include "kernels/cuda/experts_lone.h"
#include "kernels/dtype.h"
#include "tests/kernels/cuda/routed_batch.h"

namespace lynx::cuda {
namespace {

class CudaExperts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = missing_gpu(); !why.empty()) GTEST_SKIP() << "no GPU: " << why;
  }
};

std::vector<std::uint16_t> random_bf16(std::size_t count, float spread, std::uint64_t seed) {
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
struct Layer {
  Layer(const ExpertShape& s, std::uint64_t seed) : shape(s), packed(packed_expert_bytes(s) * s.experts) {
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

float dot(const std::uint16_t* w, const float* x, std::uint32_t n) {
  float lanes[8] = {};
  for (std::uint32_t i = 0; i < n; i += 8)
    for (std::uint32_t j = 0; j < 8; ++j) lanes[j] += bf16_to_f32(w[i + j]) * x[i + j];
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void add_expert(std::vector<float>& out, const Layer& layer, const HostExpert& e, const float* x,
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

struct Outcome {
  std::vector<float> out;  // [B, H]
  std::vector<float> residual;
  ExpertPlan plan;
};

class Runner {
 public:
  Runner(const Layer& layer, std::uint32_t top_k, std::uint32_t max_rows)
      : layer_(layer), workspace_(experts_workspace_bytes(layer.shape, top_k, max_rows)) {
    workspace_.clear();
    const auto view = experts_workspace_view(workspace_.get(), layer.shape, top_k, max_rows);
    const auto counters = reinterpret_cast<std::byte*>(view.activations) - workspace_.get();
    expect_ok(cudaMemset(view.activations, 0xFF, workspace_.size() - static_cast<std::size_t>(counters)));
  }

  // Row r's input and residual depend on input_of(r) alone. Two calls in a row, the first into a copy:
  // counters must come back to zero.
  Outcome run(const RoutingCase& c, const std::vector<std::uint16_t>& x, bool prefill = false) {
    const std::uint32_t h = layer_.shape.hidden;
    RoutedBatch batch(c);
    prefill ? batch.prefill() : batch.decode();
    if (!hints.empty())
      expect_ok(cudaMemcpy(batch.device_plan().hints, hints.data(), hints.size() * sizeof(hints[0]),
                           cudaMemcpyHostToDevice));
    Outcome run;
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
  const Layer& layer_;
  DeviceArray<std::byte> workspace_;
};

RoutingCase batch_of(const ExpertShape& s, std::uint32_t top_k, std::uint32_t rows, std::uint32_t seed,
                     PolicyKind kind = PolicyKind::kOff) {
  return random_case(seed, rows, {.experts = s.experts, .top_k = top_k}, kind);
}

// ||out - want|| / ||want - residual|| over live rows; NaN never passes.
double relative_error(const Layer& layer, const RoutingCase& c, const std::vector<std::uint16_t>& x,
                      const Outcome& run) {
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

void expect_close(const Layer& layer, std::uint32_t top_k, const RoutingCase& c, bool prefill = false) {
  SCOPED_TRACE(std::to_string(layer.shape.hidden) + "x" + std::to_string(layer.shape.intermediate) +
               " N=" + std::to_string(layer.shape.experts) + " k=" + std::to_string(top_k) +
               " B=" + std::to_string(c.rows()));
  const auto x = random_bf16(std::size_t{c.rows()} * layer.shape.hidden, 1, c.rows() + 99);
  Runner runner(layer, top_k, c.rows());
  const Outcome run = runner.run(c, x, prefill);
  EXPECT_LE(relative_error(layer, c, x, run), 1e-2);
}

TEST_F(CudaExperts, SmallAndOddShapes) {
  const std::vector<ExpertShape> shapes{{4, 32, 32},   {8, 256, 32},  {6, 96, 160}, {16, 64, 96},
                                        {5, 416, 224}, {64, 128, 64}, {3, 64, 4256}};
  for (const ExpertShape& shape : shapes) {
    const Layer layer(shape, std::random_device{}());
    for (const std::uint32_t top_k : {1U, 2U, std::min(4U, shape.experts)})
      for (const std::uint32_t rows : {1U, 3U, 8U, 17U, 33U, 64U})
        expect_close(layer, top_k, batch_of(shape, top_k, rows, rows));
    expect_close(layer, 2, batch_of(shape, 2, 150, 5), true);
  }
}

TEST_F(CudaExperts, ModelShapes) {
  const std::vector<ExpertShape> shapes{{12, 2048, 768}, {10, 2048, 1408}, {8, 3584, 2560}};
  for (const ExpertShape& shape : shapes) {
    const Layer layer(shape, 11);
    for (const std::uint32_t rows : {1U, 16U, 40U}) expect_close(layer, 4, batch_of(shape, 4, rows, rows));
  }
}

// All rows at one expert: every size of task and more than one block of rows.
TEST_F(CudaExperts, AnyNumberOfRowsAtOneExpert) {
  const ExpertShape shape{3, 256, 160};
  const Layer layer(shape, 5);
  for (std::uint32_t rows = 1; rows <= 64; rows += rows < 20 ? 1 : 4)
    expect_close(layer, 3, batch_of(shape, 3, rows, rows));
  for (const std::uint32_t rows : {1U, 9U, 33U, 65U, 97U, 160U, 161U, 260U, 700U})
    expect_close(layer, 3, batch_of(shape, 3, rows, rows), true);
}

TEST_F(CudaExperts, EmptySlotsOfReducedRows) {
  const ExpertShape shape{16, 128, 64};
  const Layer layer(shape, 5);
  expect_close(layer, 8, batch_of(shape, 8, 9, 1, PolicyKind::kTopKReduced));
}

TEST_F(CudaExperts, EveryPolicy) {
  const ExpertShape shape{64, 64, 32};
  const Layer layer(shape, 5);
  for (const PolicyKind kind :
       {PolicyKind::kLynx, PolicyKind::kShare, PolicyKind::kEnergy, PolicyKind::kOea, PolicyKind::kXshare})
    for (std::uint32_t rows = 1; rows <= 16; ++rows) {
      RoutingCase c = batch_of(shape, 8, rows, rows, kind);
      if (rows > 4) c.live[rows - 1] = 0;
      if (rows > 6) c.exact.assign(rows, 0), c.exact[1] = 1;
      expect_close(layer, 8, c);
    }
}

// A row gives the same bits alone and in any batch; in a prompt, whatever is computed with it.
TEST_F(CudaExperts, RowInvariance) {
  const ExpertShape shape{8, 320, 224};
  const Layer layer(shape, 6);
  Runner runner(layer, 3, 700);
  for (const bool prefill : {false, true}) {
    const std::uint32_t most = prefill ? 700 : 64;
    const RoutingCase all = batch_of(shape, 3, most, 4);
    const auto x = random_bf16(std::size_t{most} * shape.hidden, 1, 1);
    const Outcome whole = runner.run(all, x, prefill);
    for (const std::uint32_t rows : {1U, 2U, 7U, 24U, 63U, 65U, 300U}) {
      if (rows > most) continue;
      RoutingCase some = all;
      some.logits.resize(std::size_t{rows} * shape.experts);
      some.live.resize(rows);
      const Outcome part =
          runner.run(some, {x.begin(), x.begin() + std::size_t{rows} * shape.hidden}, prefill);
      EXPECT_EQ(std::memcmp(part.out.data(), whole.out.data(), part.out.size() * 4), 0)
          << rows << " rows" << (prefill ? " of a prompt" : "");
    }
  }
}

// A lone row, of a shape that has a kernel of its own for it, gets the bits of any batch, whatever routing
// hints at (nothing, what it does, a wrong expert, none that is there), and whatever the row's slots hold.
void expect_alone_as_in_a_batch(const ExpertShape& shape, std::uint32_t top_k) {
  constexpr std::uint32_t kRows = 3;
  const Layer layer(shape, 21);
  ASSERT_TRUE(kernels_of_device() != KernelSet::kHopper ||
              lone_row_takes({.shape = shape, .plan = {.rows = 1, .top_k = top_k}}));
  Runner runner(layer, top_k, kRows);
  const auto x = random_bf16(std::size_t{kRows} * shape.hidden, 1, 5);
  const RoutingCase all = batch_of(shape, top_k, kRows, 3);
  const Outcome whole = runner.run(all, x);
  for (const PolicyKind kind : {PolicyKind::kOff, PolicyKind::kLynx, PolicyKind::kTopKReduced})
    for (std::uint32_t row = 0; row < kRows; ++row) {
      RoutingCase alone = batch_of(shape, top_k, 1, 3, kind);
      std::copy_n(all.logits.begin() + row * shape.experts, shape.experts, alone.logits.begin());
      const std::vector<std::uint16_t> input(x.begin() + row * shape.hidden,
                                             x.begin() + (row + 1) * shape.hidden);
      const Outcome run = runner.run(alone, input);
      EXPECT_LE(relative_error(layer, alone, input, run), 1e-2);
      for (const std::uint32_t hint : {0U, 3U, shape.experts + 1}) {
        runner.hints.assign(top_k, hint);
        EXPECT_EQ(runner.run(alone, input).out, run.out) << "hints at " << hint;
      }
      runner.hints.clear();
      const auto* const same = whole.out.data() + row * shape.hidden;
      const bool equal = std::memcmp(run.out.data(), same, shape.hidden * sizeof(float)) == 0;
      EXPECT_TRUE(kind == PolicyKind::kTopKReduced || equal) << "row " << row;
    }
  RoutingCase padding = batch_of(shape, top_k, 1, 3);
  padding.live[0] = 0;
  const Outcome stays = runner.run(padding, random_bf16(shape.hidden, 1, 5));
  EXPECT_EQ(stays.out, stays.residual);
}

TEST_F(CudaExperts, ALoneRow) {
  expect_alone_as_in_a_batch({32, 1024, 256}, 8);
  expect_alone_as_in_a_batch({9, 1024, 512}, 4);
}

TEST_F(CudaExperts, ALoneRowOfLargeModels) {
  expect_alone_as_in_a_batch({12, 2048, 768}, 8);
  expect_alone_as_in_a_batch({8, 7168, 256}, 8);
}

// Field report 12: a batch of 5 in a bucket of 8 gives the output of 5, and the padding rows stay as they
// were.
TEST_F(CudaExperts, PaddingRowsReadNothingAndStay) {
  const ExpertShape shape{16, 256, 96};
  const Layer layer(shape, 7);
  RoutingCase padded = batch_of(shape, 4, 8, 2, PolicyKind::kLynx);
  RoutingCase eager = padded;
  eager.logits.resize(std::size_t{5} * shape.experts);
  eager.live.resize(5);
  for (std::uint32_t r = 5; r < 8; ++r) padded.live[r] = 0;
  const auto x = random_bf16(std::size_t{8} * shape.hidden, 1, 3);
  Runner runner(layer, 4, 8);
  const Outcome in_bucket = runner.run(padded, x);
  const Outcome alone = runner.run(eager, {x.begin(), x.begin() + std::size_t{5} * shape.hidden});
  EXPECT_EQ(std::memcmp(in_bucket.out.data(), alone.out.data(), alone.out.size() * 4), 0);
  for (std::size_t i = alone.out.size(); i < in_bucket.out.size(); ++i)
    ASSERT_EQ(in_bucket.out[i], in_bucket.residual[i]);
  EXPECT_EQ(in_bucket.plan.active, alone.plan.active);
}

}  // namespace
}  // namespace lynx::cuda
