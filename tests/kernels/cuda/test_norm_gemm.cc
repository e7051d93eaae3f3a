#include "kernels/cuda/norm_gemm.h"

#include <limits>

#include "kernels/cuda/device.h"
#include "tests/kernels/cuda/parity.h"

namespace lynx::cuda {
namespace {

class CudaNormGemm : public GpuTest {
 protected:
  // The portable kernels have no such launch: they hand everything over.
  const bool hopper_ = missing_gpu().empty() && kernels_of_device() == KernelSet::kHopper;
};

struct Size {
  std::uint32_t n, k;
};
// Routers of Qwen3-30B-A3B, Qwen2-57B-A14B, DeepSeek-V2-Lite, Mixtral-8x7B and the shipped model; outputs
// that fill no cluster, blocks of a cluster that add up different numbers of rows.
constexpr Size kSizes[] = {{128, 2048}, {64, 3584}, {64, 2048}, {8, 4096},  {64, 256},
                           {512, 2048}, {33, 768},  {1, 1536},  {100, 512}, {70, 2560}};

struct NormCase {
  Size size;
  std::uint32_t rows;
  std::vector<float> hidden;
  DeviceMatrix x, norm, weights, out, normed;

  NormCase(Size of, std::uint32_t count)
      : size(of),
        rows(count),
        hidden(random_floats(std::size_t{count} * of.k, fresh_seed(), 3)),
        x(Dtype::kF32, count, of.k, hidden, 8),
        norm(Dtype::kF32, 1, of.k, random_floats(of.k, fresh_seed())),
        weights(Dtype::kBf16, of.n, of.k, random_floats(std::size_t{of.n} * of.k, fresh_seed())),
        out(Dtype::kF32, count, of.n, 4),
        normed(Dtype::kBf16, count, of.k, 8) {}

  NormGemmArgs args(const std::uint32_t* live = nullptr) const {
    return {.out = out.view(),
            .normed = normed.view(),
            .x = x.view(),
            .norm_weight = norm.view(),
            .eps = 1e-6F,
            .weights = reinterpret_cast<const std::uint16_t*>(weights.view().data),
            .live_rows = live,
            .kernels = kernels_of_device()};
  }
  struct Bits {
    std::vector<std::byte> out, normed;
    bool operator==(const Bits&) const = default;
  };
  Bits run(void (*launch)(const NormGemmArgs&, cudaStream_t), const NormGemmArgs& args) {
    out.poison();
    normed.poison();
    expect_ok(cudaDeviceSynchronize());
    launch(args, nullptr);
    return {out.raw(), normed.raw()};
  }
};

std::string text(Size size, std::uint32_t rows) {
  return std::to_string(rows) + " rows, " + std::to_string(size.n) + " x " + std::to_string(size.k);
}

TEST_F(CudaNormGemm, HasTheBitsOfItsOperationsApart) {
  for (const Size size : kSizes) {
    for (const std::uint32_t rows : {1U, 2U, 7U, 8U, 9U, 16U, 17U, 24U, 32U, 33U, 48U, 64U}) {
      NormCase c(size, rows);
      ASSERT_EQ(norm_gemm_takes(c.args()), hopper_) << text(size, rows);
      const auto apart = c.run(norm_gemm_apart, c.args());
      const auto together = c.run(norm_gemm, c.args());
      EXPECT_TRUE(together.normed == apart.normed) << text(size, rows) << ": the normed rows differ";
      EXPECT_TRUE(together.out == apart.out) << text(size, rows) << ": the product differs";
      c.out.expect_padding_poisoned(rows);
      c.normed.expect_padding_poisoned(rows);
    }
  }
}

// Padding rows hold NaNs: these reach nobody, and nothing of such a row is written.
TEST_F(CudaNormGemm, LeavesPadding) {
  for (const Size size : kSizes) {
    for (const std::uint32_t live : {0U, 1U, 8U, 21U, 32U, 50U, 64U, 99U}) {
      NormCase c(size, 64);
      const DeviceArray<std::uint32_t> count(std::vector<std::uint32_t>{live});
      const std::uint32_t rows = std::min(live, 64U);
      std::fill(c.hidden.begin() + std::size_t{rows} * size.k, c.hidden.end(),
                std::numeric_limits<float>::quiet_NaN());
      c.x.upload(c.hidden);
      const auto apart = c.run(norm_gemm_apart, c.args(count.get()));
      EXPECT_TRUE(c.run(norm_gemm, c.args(count.get())) == apart) << live << " of " << text(size, 64);
      c.out.expect_padding_poisoned(rows);
      c.normed.expect_padding_poisoned(rows);
    }
  }
}

// As in a decode step: launches that may begin before the one before has ended, captured once and replayed.
TEST_F(CudaNormGemm, ReplaysInAGraphServeAnyNumberOfRows) {
  NormCase c({128, 2048}, 32);
  DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{32});
  c.run(norm_gemm, c.args(live.get()));  // loads the kernel, which a capture had better not
  const Stream stream = make_stream();
  GraphExec graph;
  {
    Capture capture(stream.get());
    for (int i = 0; i < 20; ++i) norm_gemm(c.args(live.get()), stream.get());
    graph = capture.finish();
  }
  for (const std::uint32_t rows : {32U, 1U, 20U, 0U, 17U}) {
    live.upload({rows});
    const auto apart = c.run(norm_gemm_apart, c.args(live.get()));
    c.out.poison();
    c.normed.poison();
    expect_ok(cudaDeviceSynchronize());
    expect_ok(cudaGraphLaunch(graph.get(), stream.get()));
    expect_ok(cudaStreamSynchronize(stream.get()));
    EXPECT_TRUE((NormCase::Bits{c.out.raw(), c.normed.raw()}) == apart) << rows << " live rows";
  }
}

TEST_F(CudaNormGemm, HandsOverWhatItDoesNotTake) {
  for (const Size size : {Size{128, 264}, Size{1024, 2048}, Size{16, 2816}, Size{40, 8}}) {
    NormCase c(size, 20);
    EXPECT_FALSE(norm_gemm_takes(c.args())) << text(size, 20);
    EXPECT_TRUE(c.run(norm_gemm, c.args()) == c.run(norm_gemm_apart, c.args())) << text(size, 20);
  }
}

}  // namespace
}  // namespace lynx::cuda
