// The experts of a lone row, which have a launch of their own.
#include "kernels/cuda/experts_lone.h"
#include "kernels/cuda/launch.h"
#include "tests/kernels/cuda/experts_case.h"

namespace lynx::cuda {
namespace {

// The shapes share out evenly over the multiprocessors of an H200.
bool has_a_launch_of_its_own() {
  return kernels_of_device() == KernelSet::kHopper && multiprocessors() == 132 && !shares_multiprocessors();
}

// A lone row, of a shape that has a kernel of its own for it, gets the bits of any batch, whatever routing
// hints at (nothing, what it does, a wrong expert, none that is there), whatever the row's slots hold, and
// whatever else the workspace served before.
void expect_alone_as_in_a_batch(const ExpertShape& shape, std::uint32_t top_k) {
  constexpr std::uint32_t kRows = 3;
  const ExpertLayer layer(shape, 21);
  ASSERT_TRUE(!has_a_launch_of_its_own() ||
              lone_row_takes({.shape = shape, .plan = {.rows = 1, .top_k = top_k}}));
  ExpertRunner runner(layer, top_k, kRows);
  const auto x = random_bf16(std::size_t{kRows} * shape.hidden, 1, 5);
  const RoutingCase all = batch_of(shape, top_k, kRows, 3);
  const ExpertOutcome whole = runner.run(all, x);
  runner.run(all, x, true);
  EXPECT_EQ(runner.run(all, x).out, whole.out) << "after a prompt";
  for (const PolicyKind kind : {PolicyKind::kOff, PolicyKind::kLynx, PolicyKind::kTopKReduced})
    for (std::uint32_t row = 0; row < kRows; ++row) {
      RoutingCase alone = batch_of(shape, top_k, 1, 3, kind);
      std::copy_n(all.logits.begin() + row * shape.experts, shape.experts, alone.logits.begin());
      const std::vector<std::uint16_t> input(x.begin() + row * shape.hidden,
                                             x.begin() + (row + 1) * shape.hidden);
      const ExpertOutcome run = runner.run(alone, input);
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
  const ExpertOutcome stays = runner.run(padding, random_bf16(shape.hidden, 1, 5));
  EXPECT_EQ(stays.out, stays.residual);
}

TEST_F(CudaExperts, ALoneRow) {
  expect_alone_as_in_a_batch({32, 1024, 256}, 8);
  expect_alone_as_in_a_batch({9, 1024, 512}, 4);
}

TEST_F(CudaExperts, ALoneRowOfFewestAndMostSlots) {
  expect_alone_as_in_a_batch({2, 4096, 2048}, 1);
  expect_alone_as_in_a_batch({40, 512, 512}, 32);
}

TEST_F(CudaExperts, ALoneRowOfLargeModels) {
  expect_alone_as_in_a_batch({12, 2048, 768}, 8);
  expect_alone_as_in_a_batch({8, 7168, 256}, 8);
}

}  // namespace
}  // namespace lynx::cuda
