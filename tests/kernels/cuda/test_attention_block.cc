#include "kernels/cuda/attention_block.h"

#include <cstdio>
#include <cstdlib>
#include <limits>

#include "kernels/cuda/device.h"
#include "tests/kernels/cuda/attention_block_case.h"
#include "tests/kernels/cuda/attention_case.h"

namespace lynx::cuda {
namespace {

class CudaAttentionBlock : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && kernels_of_device() == KernelSet::kPortable)
      GTEST_SKIP() << "no Hopper GPU: the block in one launch is of its kernels";
  }
};

constexpr LayerSize kLayers[] = {{2048, {32, 4, 128}},
                                 {3584, {28, 4, 128}},
                                 {4096, {32, 8, 128}},
                                 {2048, {32, 8, 64}},
                                 {2560, {40, 2, 64}}};

std::vector<std::uint32_t> mixed_contexts(std::uint32_t rows) {
  constexpr std::uint32_t kSome[] = {1074, 1, 128, 129, 16, 17, 700, 2049, 333, 1024, 63, 64, 65, 2048, 2};
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < rows; ++r) out.push_back(kSome[r % std::size(kSome)]);
  return out;
}

TEST_F(CudaAttentionBlock, HasTheBitsOfItsOperationsApart) {
  for (const LayerSize& size : kLayers) {
    for (const std::uint32_t rows : {32U, 1U, 16U, 5U, 17U}) {
      BlockCase c(size, mixed_contexts(rows), rows);
      const AttentionBlockArgs args = c.args(0, rows, false);
      // The largest rows and sums may leave too little shared memory for the ring; then nothing is in one
      // launch.
      const bool large = size.hidden == 4096 && rows > 16;
      ASSERT_TRUE(attention_block_takes(args) || large) << size.hidden << ", " << rows << " rows";
      const auto apart = c.run(attention_block_apart, args);
      for (int twice = 0; twice < 2; ++twice) {  // the first launch leaves the meetings as it found them
        const auto block = c.run(attention_block, args);
        EXPECT_TRUE(block.x == apart.x) << size.hidden << ", " << rows << " rows: x differs";
        EXPECT_TRUE(block.pool == apart.pool) << size.hidden << ", " << rows << " rows: the pool differs";
      }
    }
  }
}

// One KV head, groups of more than eight query heads, several slices, a warp for each KV head of a task;
// tiles of 16 tokens begin and end within the pool's blocks.
TEST_F(CudaAttentionBlock, TakesAnyGroupingOfHeadsAndAnyBlocks) {
  constexpr LayerSize kGroupings[] = {{2048, {16, 1, 128}},
                                      {2048, {32, 2, 128}},
                                      {3072, {24, 3, 128}},
                                      {2048, {16, 16, 128}},
                                      {2048, {32, 16, 64}}};
  for (const LayerSize& size : kGroupings) {
    for (const std::uint32_t block_tokens : {24U, 5U, 1U, 64U}) {
      BlockCase c(size, mixed_contexts(18), 18, block_tokens);
      const AttentionBlockArgs args = c.args(0, 18, false);
      ASSERT_TRUE(attention_block_takes(args)) << text(size.heads, KvDtype::kBf16, Dtype::kBf16);
      EXPECT_TRUE(c.run(attention_block, args) == c.run(attention_block_apart, args))
          << text(size.heads, KvDtype::kBf16, Dtype::kBf16) << ", blocks of " << block_tokens;
    }
  }
}

// Padding rows hold NaNs: these reach nobody, and nothing of such a row is written.
TEST_F(CudaAttentionBlock, LeavesPaddingAndKeepsARowsBits) {
  for (const std::uint32_t live : {21U, 0U, 1U, 16U, 17U, 31U}) {
    BlockCase c(kLayers[0], mixed_contexts(32), live);
    const auto alone = c.run(attention_block_apart, c.args(0, 32, false));
    std::fill(c.hidden.begin() + live * kLayers[0].hidden, c.hidden.end(),
              std::numeric_limits<float>::quiet_NaN());
    const auto all = c.run(attention_block, c.args(0, 32, true));
    for (std::uint32_t r = live; r < 32; ++r)
      EXPECT_TRUE(c.kv.is_poisoned(r, c.contexts[r] - 1)) << "row " << r << " of " << live << " wrote its KV";
    EXPECT_TRUE(all.rows(0, live, c.row_bytes()) == alone.rows(0, live, c.row_bytes())) << live << " rows";
    c.start_over();
    EXPECT_TRUE(all.rows(live, 32 - live, c.row_bytes()) == c.bits(c.args(live, 32 - live, false)).x)
        << "padding of " << live << " rows was written";
    for (const std::uint32_t r : {0U, 7U, 20U}) {
      if (r >= live) continue;
      const auto one = c.run(attention_block, c.args(r, 1, false));
      EXPECT_TRUE(one.x == all.rows(r, 1, c.row_bytes())) << "row " << r;
    }
  }
}

// What it does not take it does apart; and a row's bits are those that it has in a smaller step.
TEST_F(CudaAttentionBlock, HandsOverWhatIsTooLarge) {
  BlockCase c(kLayers[0], mixed_contexts(40), 40);
  const AttentionBlockArgs args = c.args(0, 40, false);
  EXPECT_FALSE(attention_block_takes(args));
  const auto all = c.run(attention_block, args);
  EXPECT_TRUE(all == c.run(attention_block_apart, args));
  for (const std::uint32_t rows : {32U, 17U, 16U, 3U}) {
    const AttentionBlockArgs some = c.args(40 - rows, rows, false);
    EXPECT_TRUE(attention_block_takes(some));
    EXPECT_TRUE(c.run(attention_block, some).x == all.rows(40 - rows, rows, c.row_bytes()))
        << rows << " rows";
  }
}

// The last meeting's counter is the next launch's to clear, whatever it holds; the others are zero again.
TEST_F(CudaAttentionBlock, LeavesItsMeetingsToTheNextLaunch) {
  BlockCase c(kLayers[0], mixed_contexts(16), 16);
  const AttentionBlockArgs args = c.args(0, 16, false);
  const auto apart = c.run(attention_block_apart, args);
  EXPECT_TRUE(c.run(attention_block, args) == apart);
  const std::vector<std::uint32_t> after = c.meetings.download();
  EXPECT_EQ(after[0], 0U);
  EXPECT_EQ(after[1], 0U);
  EXPECT_GT(after[2], 0U);  // blocks of the launch
  c.meetings.upload({0, 0, 123456});
  EXPECT_TRUE(c.run(attention_block, args) == apart);
  EXPECT_EQ(c.meetings.download(), after);
}

// As in a decode step: launches that may begin before the one before has ended, of 32 and of 8 rows by turns,
// captured once and replayed for any number of live rows.
TEST_F(CudaAttentionBlock, ReplaysOfAGraphServeAnyNumberOfRows) {
  BlockCase c(kLayers[0], mixed_contexts(32), 32);
  for (const std::uint32_t rows : {32U, 8U}) {  // loads the kernels, which a capture had better not
    const AttentionBlockArgs args = c.args(0, rows, true);
    EXPECT_TRUE(c.run(attention_block, args) == c.run(attention_block_apart, args)) << rows << " rows";
  }
  const Stream stream = make_stream();
  const auto capture = [&](const auto& block) {
    Capture graph(stream.get());
    for (const std::uint32_t rows : {32U, 8U, 32U, 8U, 32U}) block(c.args(0, rows, true), stream.get());
    return graph.finish();
  };
  const GraphExec blocks = capture(attention_block);
  const GraphExec operations = capture(attention_block_apart);
  const auto replay = [&](const GraphExec& graph) {
    c.start_over();
    expect_ok(cudaDeviceSynchronize());  // the stream does not wait for the copies
    expect_ok(cudaGraphLaunch(graph.get(), stream.get()));
    expect_ok(cudaStreamSynchronize(stream.get()));
    return c.bits(c.args(0, 32, true));
  };
  for (const std::uint32_t live : {32U, 1U, 20U, 0U, 8U, 32U}) {
    c.live.upload({live});
    EXPECT_TRUE(replay(blocks) == replay(operations)) << live << " live rows";
  }
}

// A block that never comes to the first meeting: the launch fails and says so, instead of holding the GPU. In
// a process of its own, with which the error stays; takes the ten seconds.
TEST_F(CudaAttentionBlock, GivesUpWhenABlockNeverComes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        BlockCase c(kLayers[0], mixed_contexts(16), 16);
        const PinnedMemory note(sizeof(LongWaitNote));
        *note.at<LongWaitNote>(0) = 0;
        AttentionBlockArgs args = c.args(0, 16, false);
        args.long_wait = note.at<LongWaitNote>(0);
        c.meetings.upload({0xFFFFFFFF, 0, 0});  // one arrival fewer than blocks
        attention_block(args, nullptr);
        const bool failed = cudaDeviceSynchronize() == cudaErrorLaunchFailure;
        std::fputs(describe(*note.at<LongWaitNote>(0)).c_str(), stderr);
        std::_Exit(failed ? 3 : 4);
      },
      ::testing::ExitedWithCode(3), "of the attention block waited");
}

}  // namespace
}  // namespace lynx::cuda
