#include "kernels/cuda/attention_block.h"

#include <algorithm>

#include "tests/kernels/cuda/kv_case.h"

namespace lynx::cuda {
namespace {

struct LayerSize {
  std::uint32_t hidden;
  Heads heads;
};

// A layer's weights, and rows at the last tokens of their sequences, which are not in the pool yet.
struct BlockCase {
  LayerSize size;
  std::vector<std::uint32_t> contexts;
  std::uint32_t q_size, kv_size, max_context;
  KvCase kv;
  std::vector<float> hidden, rope;
  DeviceMatrix norm, qkv, o, head_norms, table, x, normed, qkv_rows, attended;
  DeviceArray<std::uint32_t> positions, live, meetings;
  DeviceArray<std::byte> workspace;

  BlockCase(LayerSize of, std::vector<std::uint32_t> lengths, std::uint32_t live_rows)
      : size(of),
        contexts(std::move(lengths)),
        q_size(of.heads.q * of.heads.size),
        kv_size(of.heads.kv * of.heads.size),
        max_context(*std::max_element(contexts.begin(), contexts.end())),
        kv(of.heads, KvDtype::kBf16, 16, contexts),
        hidden(random_floats(std::size_t{rows()} * of.hidden, fresh_seed(), 3)),
        rope(rope_table(max_context, of.heads.size)),
        norm(Dtype::kF32, 1, of.hidden, random_floats(of.hidden, fresh_seed())),
        qkv(weights(q_size + 2 * kv_size, of.hidden)),
        o(weights(of.hidden, q_size)),
        head_norms(Dtype::kF32, 2, of.heads.size, random_floats(2 * of.heads.size, fresh_seed())),
        table(Dtype::kF32, max_context, of.heads.size, rope),
        x(Dtype::kF32, rows(), of.hidden, 8),
        normed(Dtype::kBf16, rows(), of.hidden),
        qkv_rows(Dtype::kF32, rows(), q_size + 2 * kv_size, 8),
        attended(Dtype::kBf16, rows(), q_size, 8),
        positions(last(contexts)),
        live(std::vector<std::uint32_t>{live_rows}),
        meetings(std::vector<std::uint32_t>(kAttentionBlockMeetings, 0)),
        workspace(decode_attention_workspace(64, of.heads.q, of.heads.kv, of.heads.size, max_context)) {
    kv.fill();
    workspace.clear();
  }
  std::uint32_t rows() const { return static_cast<std::uint32_t>(contexts.size()); }
  static DeviceMatrix weights(std::uint32_t n, std::uint32_t k) {
    return {Dtype::kBf16, n, k, random_floats(std::size_t{n} * k, fresh_seed(), 0.05)};
  }
  static std::vector<std::uint32_t> last(std::vector<std::uint32_t> lengths) {
    for (std::uint32_t& length : lengths) --length;
    return lengths;
  }

  // Rows [first, first + count).
  AttentionBlockArgs args(std::uint32_t first, std::uint32_t count, bool padded) {
    const auto from = [&](const DeviceMatrix& m) {
      TensorView view = m.view();
      view.data += first * view.stride * bytes_of(view.dtype);
      view.rows = count;
      return view;
    };
    const TensorView of = from(qkv_rows);
    StagedRows staged = kv.staged();
    staged.positions = positions.get() + first;
    staged.tables += std::size_t{first} * staged.table_stride;
    staged.live_rows = padded ? live.get() : nullptr;
    TensorView k_norm = head_norms.view(1);
    k_norm.data += size.heads.size * sizeof(float);
    return {.x = from(x),
            .norm_weight = norm.view(),
            .eps = 1e-5F,
            .qkv = reinterpret_cast<const std::uint16_t*>(qkv.view().data),
            .o = reinterpret_cast<const std::uint16_t*>(o.view().data),
            .normed = from(normed),
            .qkv_rows = of,
            .attention = {.out = from(attended),
                          .in = {.q = of.columns(0, q_size),
                                 .k = of.columns(q_size, kv_size),
                                 .v = of.columns(q_size + kv_size, kv_size),
                                 .q_weight = head_norms.view(1),
                                 .k_weight = k_norm,
                                 .eps = kHeadEps,
                                 .rope = table.view(),
                                 .kv = kv.layer(),
                                 .rows = staged},
                          .max_context = max_context,
                          .workspace = workspace.get(),
                          .kernels = KernelSet::kHopper},
            .meetings = meetings.get()};
  }
  // The rows' bits and the pool's after it; x starts from `hidden`.
  template <typename Block>
  std::pair<std::vector<std::byte>, std::vector<std::byte>> run(const Block& block,
                                                                const AttentionBlockArgs& a) {
    x.upload(hidden);
    normed.poison();
    qkv_rows.poison();
    attended.poison();
    block(a, nullptr);
    const std::size_t row_bytes = x.view().stride * sizeof(float);
    return {DeviceArray<std::byte>::download_from(a.x.data, a.x.rows * row_bytes), kv.download()};
  }
};

class CudaAttentionBlock : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && kernels_of_device() == KernelSet::kPortable)
      GTEST_SKIP() << "the one-launch block is of the Hopper kernels";
  }
};

constexpr LayerSize kLayers[] = {{2048, {32, 4, 128}},
                                 {3584, {28, 4, 128}},
                                 {4096, {32, 8, 128}},
                                 {2048, {32, 8, 64}},
                                 {2560, {40, 2, 64}}};

std::vector<std::uint32_t> mixed_contexts(std::uint32_t rows) {
  constexpr std::uint32_t kSome[] = {1074, 1, 128, 129, 16, 17, 700, 2049, 333, 1024};
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
        EXPECT_TRUE(block.first == apart.first) << size.hidden << ", " << rows << " rows: x differs";
        EXPECT_TRUE(block.second == apart.second) << size.hidden << ", " << rows << " rows: the pool differs";
      }
    }
  }
}

TEST_F(CudaAttentionBlock, LeavesPaddingAndKeepsARowsBits) {
  constexpr std::uint32_t kLive = 21;
  BlockCase c(kLayers[0], mixed_contexts(32), kLive);
  const auto all = c.run(attention_block, c.args(0, 32, true)).first;
  const std::size_t row_bytes = all.size() / 32;
  c.x.upload(c.hidden);
  const auto before = c.x.raw();
  EXPECT_TRUE(std::equal(all.begin() + kLive * row_bytes, all.end(), before.begin() + kLive * row_bytes));
  for (const std::uint32_t r : {0U, 7U, 20U}) {
    const auto one = c.run(attention_block, c.args(r, 1, false)).first;
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + r * row_bytes)) << "row " << r;
  }
}

// What it does not take it does apart.
TEST_F(CudaAttentionBlock, HandsOverWhatIsTooLarge) {
  BlockCase c(kLayers[0], mixed_contexts(40), 40);
  const AttentionBlockArgs args = c.args(0, 40, false);
  EXPECT_FALSE(attention_block_takes(args));
  EXPECT_TRUE(c.run(attention_block, args) == c.run(attention_block_apart, args));
}

}  // namespace
}  // namespace lynx::cuda
