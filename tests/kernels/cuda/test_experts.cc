// The expert kernels against plain loops over bf16 weights.
#include <random>

#include "tests/kernels/cuda/experts_case.h"

namespace lynx::cuda {
namespace {

void expect_close(const ExpertLayer& layer, std::uint32_t top_k, const RoutingCase& c, bool prefill = false) {
  SCOPED_TRACE(std::to_string(layer.shape.hidden) + "x" + std::to_string(layer.shape.intermediate) +
               " N=" + std::to_string(layer.shape.experts) + " k=" + std::to_string(top_k) +
               " B=" + std::to_string(c.rows()));
  const auto x = random_bf16(std::size_t{c.rows()} * layer.shape.hidden, 1, c.rows() + 99);
  ExpertRunner runner(layer, top_k, c.rows());
  const ExpertOutcome run = runner.run(c, x, prefill);
  EXPECT_LE(relative_error(layer, c, x, run), 1e-2);
}

TEST_F(CudaExperts, SmallAndOddShapes) {
  const std::vector<ExpertShape> shapes{{4, 32, 32},   {8, 256, 32},  {6, 96, 160}, {16, 64, 96},
                                        {5, 416, 224}, {64, 128, 64}, {3, 64, 4256}};
  for (const ExpertShape& shape : shapes) {
    const ExpertLayer layer(shape, std::random_device{}());
    for (const std::uint32_t top_k : {1U, 2U, std::min(4U, shape.experts)})
      for (const std::uint32_t rows : {1U, 3U, 8U, 17U, 33U, 64U})
        expect_close(layer, top_k, batch_of(shape, top_k, rows, rows));
    expect_close(layer, 2, batch_of(shape, 2, 150, 5), true);
  }
}

TEST_F(CudaExperts, ModelShapes) {
  const std::vector<ExpertShape> shapes{{12, 2048, 768}, {10, 2048, 1408}, {8, 3584, 2560}};
  for (const ExpertShape& shape : shapes) {
    const ExpertLayer layer(shape, 11);
    for (const std::uint32_t rows : {1U, 16U, 40U}) expect_close(layer, 4, batch_of(shape, 4, rows, rows));
  }
}

// All rows at one expert: every size of task and more than one block of rows.
TEST_F(CudaExperts, AnyNumberOfRowsAtOneExpert) {
  const ExpertShape shape{3, 256, 160};
  const ExpertLayer layer(shape, 5);
  for (std::uint32_t rows = 1; rows <= 64; rows += rows < 20 ? 1 : 4)
    expect_close(layer, 3, batch_of(shape, 3, rows, rows));
  for (const std::uint32_t rows : {1U, 9U, 33U, 65U, 97U, 160U, 161U, 260U, 700U})
    expect_close(layer, 3, batch_of(shape, 3, rows, rows), true);
}

TEST_F(CudaExperts, EmptySlotsOfReducedRows) {
  const ExpertShape shape{16, 128, 64};
  const ExpertLayer layer(shape, 5);
  expect_close(layer, 8, batch_of(shape, 8, 9, 1, PolicyKind::kTopKReduced));
}

TEST_F(CudaExperts, EveryPolicy) {
  const ExpertShape shape{64, 64, 32};
  const ExpertLayer layer(shape, 5);
  for (const PolicyKind kind :
       {PolicyKind::kLynx, PolicyKind::kShare, PolicyKind::kEnergy, PolicyKind::kOea, PolicyKind::kXshare})
    for (std::uint32_t rows = 1; rows <= 16; ++rows) {
      RoutingCase c = batch_of(shape, 8, rows, rows, kind);
      if (rows > 4) c.live[rows - 1] = 0;
      if (rows > 6) c.exact.assign(rows, 0), c.exact[1] = 1;
      expect_close(layer, 8, c);
    }
}

// A row gives the same bits alone and in any batch; in a prompt, whatever is computed with it. Up to 410 rows
// an expert has a tile of one to ten groups of 16, each of which has instructions of its own on Hopper.
TEST_F(CudaExperts, RowInvariance) {
  const ExpertShape shape{8, 320, 224};
  const ExpertLayer layer(shape, 6);
  ExpertRunner runner(layer, 3, 700);
  for (const bool prefill : {false, true}) {
    const std::uint32_t most = prefill ? 700 : 64;
    const RoutingCase all = batch_of(shape, 3, most, 4);
    const auto x = random_bf16(std::size_t{most} * shape.hidden, 1, 1);
    const ExpertOutcome whole = runner.run(all, x, prefill);
    for (const std::uint32_t rows :
         {1U, 2U, 7U, 24U, 63U, 65U, 100U, 130U, 180U, 230U, 300U, 340U, 380U, 410U}) {
      if (rows > most) continue;
      RoutingCase some = all;
      some.logits.resize(std::size_t{rows} * shape.experts);
      some.live.resize(rows);
      const ExpertOutcome part =
          runner.run(some, {x.begin(), x.begin() + std::size_t{rows} * shape.hidden}, prefill);
      EXPECT_EQ(std::memcmp(part.out.data(), whole.out.data(), part.out.size() * 4), 0)
          << rows << " rows" << (prefill ? " of a prompt" : "");
    }
  }
}

// Field report 12: a batch of 5 in a bucket of 8 gives the output of 5, and the padding rows stay as they
// were.
TEST_F(CudaExperts, PaddingRowsReadNothingAndStay) {
  const ExpertShape shape{16, 256, 96};
  const ExpertLayer layer(shape, 7);
  RoutingCase padded = batch_of(shape, 4, 8, 2, PolicyKind::kLynx);
  RoutingCase eager = padded;
  eager.logits.resize(std::size_t{5} * shape.experts);
  eager.live.resize(5);
  for (std::uint32_t r = 5; r < 8; ++r) padded.live[r] = 0;
  const auto x = random_bf16(std::size_t{8} * shape.hidden, 1, 3);
  ExpertRunner runner(layer, 4, 8);
  const ExpertOutcome in_bucket = runner.run(padded, x);
  const ExpertOutcome alone = runner.run(eager, {x.begin(), x.begin() + std::size_t{5} * shape.hidden});
  EXPECT_EQ(std::memcmp(in_bucket.out.data(), alone.out.data(), alone.out.size() * 4), 0);
  for (std::size_t i = alone.out.size(); i < in_bucket.out.size(); ++i)
    ASSERT_EQ(in_bucket.out[i], in_bucket.residual[i]);
  EXPECT_EQ(in_bucket.plan.active, alone.plan.active);
}

}  // namespace
}  // namespace lynx::cuda
