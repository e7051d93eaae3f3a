#include "kernels/cuda/gemm.h"

#include <algorithm>

#include "tests/kernels/cuda/parity.h"

namespace lynx::cuda {
namespace {

struct Case {
  std::uint32_t n, k;
};

// Weights, inputs and a residual, on both sides.
struct Problem {
  Case size;
  std::uint32_t rows;
  std::vector<float> w, x, residual;
  DeviceMatrix weights, input;

  Problem(Case of, std::uint32_t count)
      : size(of),
        rows(count),
        w(rounded_to_bf16(random_floats(std::size_t{of.n} * of.k, fresh_seed()))),
        x(rounded_to_bf16(random_floats(std::size_t{count} * of.k, fresh_seed()))),
        residual(random_floats(std::size_t{count} * of.n, fresh_seed(), 30)),
        weights(Dtype::kBf16, of.n, of.k, w),
        input(Dtype::kBf16, count, of.k, x, 8) {}

  GemmArgs args(TensorView out, std::uint32_t first_rows, bool add) const {
    return {.out = out,
            .x = input.view(first_rows),
            .weights = reinterpret_cast<const std::uint16_t*>(weights.view().data),
            .add = add,
            .live_rows = nullptr,
            .kernels = kernels_of_device()};
  }

  // A sample of the outputs, the first and the last among them: all would take minutes in double.
  std::vector<std::uint32_t> sampled() const {
    std::vector<std::uint32_t> columns;
    const std::uint32_t step = std::max(1U, size.n / 97);
    for (std::uint32_t c = 0; c < size.n; c += step) columns.push_back(c);
    columns.push_back(size.n - 1);
    return columns;
  }
  double error_of(const std::vector<float>& out, std::uint32_t live, bool add) const {
    std::vector<float> got;
    std::vector<double> ref;
    for (std::uint32_t r = 0; r < live; ++r) {
      for (const std::uint32_t c : sampled()) {
        double sum = add ? residual[r * size.n + c] : 0;
        for (std::uint32_t i = 0; i < size.k; ++i)
          sum += double{x[r * size.k + i]} * w[std::size_t{c} * size.k + i];
        ref.push_back(sum);
        got.push_back(out[r * size.n + c]);
      }
    }
    return relative_error(got, ref);
  }
};

std::string text(Case size, std::uint32_t rows) {
  return std::to_string(rows) + " rows, " + std::to_string(size.n) + " x " + std::to_string(size.k);
}

class CudaGemm : public GpuTest {};

constexpr Case kDecodeShapes[] = {{5120, 2048}, {2048, 4096}, {128, 2048}, {4608, 3584}, {3584, 3584},
                                  {512, 256},   {256, 256},   {64, 256},   {8192, 256},  {33, 40},
                                  {100, 1416},  {8, 8},       {6144, 4096}};

TEST_F(CudaGemm, SkinnyMatchesTheReference) {
  for (const Case size : kDecodeShapes) {
    ASSERT_TRUE(skinny_gemm_takes(size.n, size.k));
    for (const std::uint32_t rows : {1U, 3U, 16U, 24U, 64U}) {
      const Problem problem(size, rows);
      for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
        const DeviceMatrix out(dtype, rows, size.n, 8);
        skinny_gemm(problem.args(out.view(), rows, false), nullptr);
        out.expect_padding_poisoned(rows);
        EXPECT_LE(problem.error_of(out.floats(), rows, false), allowed(dtype))
            << name(dtype) << ", " << text(size, rows);
      }
    }
  }
}

TEST_F(CudaGemm, SkinnyAddsToTheResidual) {
  for (const Case size : {Case{2048, 4096}, Case{256, 256}, Case{33, 40}}) {
    const Problem problem(size, 13);
    const DeviceMatrix out(Dtype::kF32, 13, size.n, problem.residual);
    skinny_gemm(problem.args(out.view(), 13, true), nullptr);
    EXPECT_LE(problem.error_of(out.floats(), 13, true), 1e-4) << text(size, 13);
  }
}

TEST_F(CudaGemm, SkinnyLeavesPadding) {
  const Problem problem({512, 2048}, 16);
  for (const std::uint32_t rows : {0U, 5U, 16U, 99U}) {
    const DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{rows});
    const DeviceMatrix out(Dtype::kF32, 16, 512);
    GemmArgs args = problem.args(out.view(), 16, false);
    args.live_rows = live.get();
    skinny_gemm(args, nullptr);
    out.expect_padding_poisoned(std::min(rows, 16U));
    if (rows > 0) {
      EXPECT_LE(problem.error_of(out.floats(), std::min(rows, 16U), false), 1e-4);
    }
  }
}

TEST_F(CudaGemm, SkinnyKeepsARowsBitsInEveryBucket) {
  for (const Case size :
       {Case{5120, 2048}, Case{2048, 4096}, Case{4608, 3584}, Case{256, 256}, Case{100, 1416}}) {
    const Problem problem(size, 64);
    const DeviceMatrix all(Dtype::kF32, 64, size.n);
    skinny_gemm(problem.args(all.view(), 64, false), nullptr);
    for (const std::uint32_t rows : {1U, 2U, 4U, 8U, 16U, 24U, 32U, 48U}) {
      const DeviceMatrix some(Dtype::kF32, rows, size.n);
      skinny_gemm(problem.args(some.view(), rows, false), nullptr);
      for (std::uint32_t r = 0; r < rows; ++r)
        ASSERT_EQ(some.raw_row(r), all.raw_row(r)) << text(size, rows) << ", row " << r;
    }
  }
}

// The head of a large vocabulary: many groups of tiles for each cluster.
TEST_F(CudaGemm, SkinnyTakesALargeVocabulary) {
  for (const std::uint32_t rows : {2U, 64U}) {
    const Problem problem({151936, 256}, rows);
    const DeviceMatrix out(Dtype::kF32, rows, 151936);
    skinny_gemm(problem.args(out.view(), rows, false), nullptr);
    out.expect_padding_poisoned(rows);
    EXPECT_LE(problem.error_of(out.floats(), rows, false), 1e-4);
  }
}

TEST_F(CudaGemm, SkinnySaysWhatItDoesNotTake) {
  EXPECT_FALSE(skinny_gemm_takes(128, 4104));
  EXPECT_FALSE(skinny_gemm_takes(128, 100));
  EXPECT_TRUE(skinny_gemm_takes(1, 4096));
}

TEST_F(CudaGemm, WideMatchesTheReference) {
  WideGemm gemm;
  for (const Case size :
       {Case{5120, 2048}, Case{2048, 4096}, Case{128, 2048}, Case{512, 256}, Case{3584, 18944}}) {
    for (const std::uint32_t rows : {1U, 65U, 300U}) {
      const Problem problem(size, rows);
      for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
        const DeviceMatrix out(dtype, rows, size.n, 8);
        gemm.run(problem.args(out.view(), rows, false), nullptr);
        out.expect_padding_poisoned(rows);
        EXPECT_LE(problem.error_of(out.floats(), rows, false), allowed(dtype))
            << name(dtype) << ", " << text(size, rows);
      }
      const DeviceMatrix sum(Dtype::kF32, rows, size.n, problem.residual);
      gemm.run(problem.args(sum.view(), rows, true), nullptr);
      EXPECT_LE(problem.error_of(sum.floats(), rows, true), 1e-4) << "added, " << text(size, rows);
    }
  }
}

TEST_F(CudaGemm, WideKeepsARowsBitsWhateverTheChunk) {
  WideGemm gemm;
  for (const Case size : {Case{5120, 2048}, Case{2048, 4096}, Case{128, 2048}, Case{256, 256}}) {
    const Problem problem(size, 2048);
    const DeviceMatrix all(Dtype::kF32, 2048, size.n);
    gemm.run(problem.args(all.view(), 2048, false), nullptr);
    const std::vector<std::byte> whole = all.raw();
    for (const std::uint32_t rows : {1U, 7U, 64U, 65U, 129U, 512U, 1000U}) {
      const DeviceMatrix some(Dtype::kF32, rows, size.n);
      gemm.run(problem.args(some.view(), rows, false), nullptr);
      const std::vector<std::byte> part = some.raw();
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << text(size, rows);
    }
  }
}

}  // namespace
}  // namespace lynx::cuda
