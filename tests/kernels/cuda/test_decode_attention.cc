#include "tests/kernels/cuda/attention_case.h"

namespace lynx::cuda {
namespace {

// One row per sequence, at the last of its tokens, which is not in the pool yet.
struct DecodeCase {
  Heads heads;
  std::vector<std::uint32_t> contexts;
  std::uint32_t max_context;
  std::uint32_t q_size, kv_size;
  KvCase kv;
  std::vector<float> qkv, q_weight, k_weight, rope;
  DeviceMatrix input, norms, table;
  DeviceArray<std::uint32_t> positions;
  DeviceArray<std::byte> workspace;

  DecodeCase(Heads of, KvDtype dtype, std::uint32_t block_tokens, std::vector<std::uint32_t> lengths,
             bool normed = true)
      : heads(of),
        contexts(std::move(lengths)),
        max_context(*std::max_element(contexts.begin(), contexts.end())),
        q_size(of.q * of.size),
        kv_size(of.kv * of.size),
        kv(of, dtype, block_tokens, contexts),
        qkv(random_floats(std::size_t{rows()} * (q_size + 2 * kv_size), fresh_seed())),
        q_weight(normed ? random_floats(of.size, fresh_seed(), 2) : std::vector<float>{}),
        k_weight(normed ? random_floats(of.size, fresh_seed()) : std::vector<float>{}),
        rope(rope_table(max_context, of.size)),
        input(Dtype::kF32, rows(), q_size + 2 * kv_size, 32),
        norms(Dtype::kF32, 2, of.size),
        table(Dtype::kF32, max_context, of.size, rope),
        positions(last(contexts)),
        workspace(decode_attention_workspace(64, of.q, of.kv, of.size, max_context)) {
    kv.fill();
    for (std::uint32_t r = 0; r < rows(); ++r)
      kv.expect(r, contexts[r] - 1, turned(r, q_size, heads.kv, k_weight),
                {row(r) + q_size + kv_size, row(r) + q_size + 2 * kv_size});
    std::vector<float> weights(q_weight);
    weights.insert(weights.end(), k_weight.begin(), k_weight.end());
    if (normed) norms.upload(weights);
    workspace.clear();
  }
  static std::vector<std::uint32_t> last(std::vector<std::uint32_t> lengths) {
    for (std::uint32_t& length : lengths) --length;
    return lengths;
  }
  std::uint32_t rows() const { return static_cast<std::uint32_t>(contexts.size()); }
  const float* row(std::uint32_t r) const { return qkv.data() + std::size_t{r} * (q_size + 2 * kv_size); }
  // `count` heads of a row from `first` on, normed and turned.
  std::vector<float> turned(std::uint32_t r, std::uint32_t first, std::uint32_t count,
                            const std::vector<float>& weight) const {
    std::vector<float> out;
    for (std::uint32_t h = 0; h < count; ++h)
      for (const double x : norm_rope_reference(row(r) + first + h * heads.size, weight,
                                                rope.data() + (contexts[r] - 1) * heads.size, heads.size))
        out.push_back(static_cast<float>(x));
    return out;
  }

  // Rows [first, first + out.rows).
  void run(TensorView out, std::uint32_t first, const std::uint32_t* live) {
    input.upload(qkv);  // a launch may leave anything there
    TensorView of = input.view(out.rows);
    of.data += first * of.stride * sizeof(float);
    StagedRows staged = kv.staged();
    staged.positions = positions.get() + first;
    staged.tables += std::size_t{first} * staged.table_stride;
    staged.live_rows = live;
    TensorView k_norm = norms.view(1);
    k_norm.data += heads.size * sizeof(float);
    decode_attention({.out = out,
                      .in = {.q = of.columns(0, q_size),
                             .k = of.columns(q_size, kv_size),
                             .v = of.columns(q_size + kv_size, kv_size),
                             .q_weight = q_weight.empty() ? TensorView{} : norms.view(1),
                             .k_weight = q_weight.empty() ? TensorView{} : k_norm,
                             .eps = kHeadEps,
                             .rope = table.view(),
                             .kv = kv.layer(),
                             .rows = staged},
                      .max_context = max_context,
                      .workspace = workspace.get(),
                      .kernels = kernels_of_device()},
                     nullptr);
  }
  std::vector<double> reference(std::uint32_t count) const {
    std::vector<double> out;
    for (std::uint32_t r = 0; r < count; ++r) {
      const auto q = turned(r, 0, heads.q, q_weight);
      const auto of_row = attention_reference(kv, heads, q.data(), r, contexts[r] - 1);
      out.insert(out.end(), of_row.begin(), of_row.end());
    }
    return out;
  }
  void expect_newest_stored(double bound) const {
    for (std::uint32_t r = 0; r < rows(); ++r) {
      const std::uint32_t at = contexts[r] - 1;
      const auto expect = [&](std::size_t offset, const float* values) {
        EXPECT_LE(relative_error(kv.stored(offset), {values, values + kv_size}), bound) << "row " << r;
      };
      expect(kv.k_offset(r, at), kv.k(r, at));
      expect(kv.v_offset(r, at), kv.v(r, at));
    }
  }
};

class CudaDecodeAttention : public GpuTest {};

TEST_F(CudaDecodeAttention, MatchesTheReference) {
  std::vector<Heads> all(std::begin(kAttentionHeads), std::end(kAttentionHeads));
  all.insert(all.end(), {{16, 1, 64}, {16, 16, 128}, {32, 16, 64}});
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    for (const Heads heads : all) {
      for (const std::uint32_t block_tokens : {16U, 24U, 5U}) {
        DecodeCase c(heads, dtype, block_tokens,
                     {1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 1025, 700, 5});
        const auto rows = static_cast<std::uint32_t>(c.contexts.size());
        const auto reference = c.reference(rows);
        for (const Dtype dtype_out : {Dtype::kBf16, Dtype::kF32}) {
          const DeviceMatrix out(dtype_out, rows, heads.q * heads.size, 8);
          for (int twice = 0; twice < 2; ++twice) {  // the first launch leaves the workspace as it found it
            c.run(out.view(), 0, nullptr);
            out.expect_padding_poisoned(rows);
            EXPECT_LE(relative_error(out.floats(), reference), bound(dtype, dtype_out))
                << text(heads, dtype, dtype_out) << ", blocks of " << block_tokens;
          }
        }
        c.expect_newest_stored(bound(dtype, Dtype::kF32));
      }
    }
  }
}

TEST_F(CudaDecodeAttention, TakesHeadsWithoutNorms) {
  const Heads heads = {32, 8, 128};
  DecodeCase c(heads, KvDtype::kBf16, 16, {300, 16, 1}, false);
  const DeviceMatrix out(Dtype::kF32, 3, heads.q * heads.size);
  c.run(out.view(), 0, nullptr);
  EXPECT_LE(relative_error(out.floats(), c.reference(3)), 1e-2);
}

// Past 2,048, 4,096 and 16,384 tokens the parts grow.
TEST_F(CudaDecodeAttention, TakesLongContexts) {
  const Heads heads = {4, 1, 128};
  std::vector<std::uint32_t> contexts = {2048, 2049, 4096, 4097, 16384, 16385, 33000, 131072};
  if (decode_context_limit(kernels_of_device(), KvDtype::kBf16, heads.size) > 131072)
    contexts.push_back(140000);
  DecodeCase c(heads, KvDtype::kBf16, 16, contexts);
  const DeviceMatrix out(Dtype::kF32, c.rows(), heads.q * heads.size);
  c.run(out.view(), 0, nullptr);
  EXPECT_LE(relative_error(out.floats(), c.reference(c.rows())), 1e-2);
}

TEST_F(CudaDecodeAttention, LeavesPaddingAndKeepsARowsBits) {
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    const Heads heads = {32, 4, 128};
    DecodeCase c(heads, dtype, 16, {900, 1, 300, 257, 1500, 77, 512, 513});
    const DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{6});
    const DeviceMatrix all(Dtype::kBf16, 8, heads.q * heads.size);
    c.run(all.view(), 0, live.get());
    all.expect_padding_poisoned(6);
    for (const std::uint32_t r : {6U, 7U}) EXPECT_TRUE(c.kv.is_poisoned(r, c.contexts[r] - 1)) << "row " << r;
    for (std::uint32_t r = 0; r < 6; ++r) {
      const DeviceMatrix one(Dtype::kBf16, 1, heads.q * heads.size);
      c.run(one.view(), r, nullptr);
      EXPECT_EQ(one.raw_row(0), all.raw_row(r)) << "row " << r;
    }
  }
}

// As a decode batch that grows and shrinks: all its steps share one workspace.
TEST_F(CudaDecodeAttention, BatchesOfAnySizeShareAWorkspace) {
  const Heads heads = {32, 4, 128};
  DecodeCase c(heads, KvDtype::kBf16, 16, std::vector<std::uint32_t>(64, 700));
  const auto reference = c.reference(64);
  for (const std::uint32_t rows : {1U, 2U, 8U, 64U, 4U, 48U}) {
    const DeviceMatrix out(Dtype::kF32, rows, heads.q * heads.size);
    c.run(out.view(), 0, nullptr);
    const std::vector<double> expected(reference.begin(), reference.begin() + rows * heads.q * heads.size);
    EXPECT_LE(relative_error(out.floats(), expected), 1e-2) << rows << " rows";
  }
}

}  // namespace
}  // namespace lynx::cuda
