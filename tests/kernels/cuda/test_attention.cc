#include "kernels/cuda/attention.h"

#include "tests/kernels/cuda/kv_case.h"

namespace lynx::cuda {
namespace {

std::string text(Heads heads, KvDtype dtype, Dtype out) {
  return std::to_string(heads.q) + "/" + std::to_string(heads.kv) + " heads of " +
         std::to_string(heads.size) + ", pool " + (dtype == KvDtype::kF32 ? "f32" : "bf16") + ", out " +
         name(out);
}

double bound(KvDtype dtype, Dtype out) { return dtype == KvDtype::kF32 && out == Dtype::kF32 ? 1e-4 : 1e-2; }

// One row per sequence, at the last of its tokens.
struct DecodeCase {
  Heads heads;
  std::vector<std::uint32_t> contexts;
  std::uint32_t max_context;
  KvCase kv;
  std::vector<float> q;
  DeviceMatrix queries;
  DeviceArray<std::uint32_t> positions;
  DeviceArray<std::byte> workspace;

  DecodeCase(Heads of, KvDtype dtype, std::uint32_t block_tokens, std::vector<std::uint32_t> lengths)
      : heads(of),
        contexts(std::move(lengths)),
        max_context(*std::max_element(contexts.begin(), contexts.end())),
        kv(of, dtype, block_tokens, contexts),
        q(random_floats(contexts.size() * of.q * of.size, fresh_seed(), 2)),
        queries(Dtype::kF32, static_cast<std::uint32_t>(contexts.size()), of.q * of.size, q, 32),
        positions(last(contexts)),
        workspace(decode_attention_workspace(64, of.q, of.kv, of.size, max_context)) {
    kv.fill();
    workspace.clear();
  }
  static std::vector<std::uint32_t> last(std::vector<std::uint32_t> lengths) {
    for (std::uint32_t& length : lengths) --length;
    return lengths;
  }

  // Rows [first, first + out.rows).
  void run(TensorView out, std::uint32_t first, const std::uint32_t* live) const {
    TensorView q_rows = queries.view(out.rows);
    q_rows.data += first * q_rows.stride * sizeof(float);
    StagedRows staged = kv.staged();
    staged.positions = positions.get() + first;
    staged.tables += std::size_t{first} * staged.table_stride;
    staged.live_rows = live;
    decode_attention({.out = out,
                      .q = q_rows,
                      .kv = kv.layer(),
                      .rows = staged,
                      .max_context = max_context,
                      .workspace = workspace.get()},
                     nullptr);
  }
  std::vector<double> reference(std::uint32_t rows) const {
    std::vector<double> out;
    for (std::uint32_t r = 0; r < rows; ++r) {
      const auto row = attention_reference(kv, heads, q.data() + std::size_t{r} * heads.q * heads.size, r,
                                           contexts[r] - 1);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }
};

constexpr Heads kHeads[] = {{32, 4, 128}, {28, 4, 128}, {4, 2, 64}, {32, 8, 128}, {3, 3, 64}, {24, 2, 64}};

class CudaAttention : public GpuTest {};

TEST_F(CudaAttention, DecodeMatchesTheReference) {
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    for (const Heads heads : kHeads) {
      for (const std::uint32_t block_tokens : {16U, 24U}) {
        const DecodeCase c(heads, dtype, block_tokens,
                           {1, 15, 16, 17, 64, 255, 256, 257, 1000, 1025, 700, 5});
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
      }
    }
  }
}

// Past 4,096 and 16,384 tokens the parts grow.
TEST_F(CudaAttention, DecodeTakesLongContexts) {
  const Heads heads = {4, 1, 128};
  const DecodeCase c(heads, KvDtype::kBf16, 16, {4096, 4097, 16384, 16385, 33000});
  const DeviceMatrix out(Dtype::kF32, 5, heads.q * heads.size);
  c.run(out.view(), 0, nullptr);
  EXPECT_LE(relative_error(out.floats(), c.reference(5)), 1e-2);
}

TEST_F(CudaAttention, DecodeLeavesPaddingAndKeepsARowsBits) {
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    const Heads heads = {32, 4, 128};
    const DecodeCase c(heads, dtype, 16, {900, 1, 300, 257, 1500, 77, 512, 513});
    const DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{6});
    const DeviceMatrix all(Dtype::kBf16, 8, heads.q * heads.size);
    c.run(all.view(), 0, live.get());
    all.expect_padding_poisoned(6);
    for (std::uint32_t r = 0; r < 6; ++r) {
      const DeviceMatrix one(Dtype::kBf16, 1, heads.q * heads.size);
      c.run(one.view(), r, nullptr);
      EXPECT_EQ(one.raw_row(0), all.raw_row(r)) << "row " << r;
    }
  }
}

// As a decode batch that grows and shrinks: all its steps share one workspace.
TEST_F(CudaAttention, DecodeBatchesOfAnySizeShareAWorkspace) {
  const Heads heads = {32, 4, 128};
  const DecodeCase c(heads, KvDtype::kBf16, 16, std::vector<std::uint32_t>(64, 700));
  const auto reference = c.reference(64);
  for (const std::uint32_t rows : {1U, 2U, 8U, 64U, 4U, 48U}) {
    const DeviceMatrix out(Dtype::kF32, rows, heads.q * heads.size);
    c.run(out.view(), 0, nullptr);
    const std::vector<double> expected(reference.begin(), reference.begin() + rows * heads.q * heads.size);
    EXPECT_LE(relative_error(out.floats(), expected), 1e-2) << rows << " rows";
  }
}

// Rows of several sequences, in chunks.
struct PrefillCase {
  Heads heads;
  std::vector<PrefillSequence> sequences;  // one after the other
  KvCase kv;
  std::uint32_t rows;
  std::vector<float> q;
  DeviceMatrix queries;

  PrefillCase(Heads of, KvDtype dtype, std::vector<PrefillSequence> list)
      : heads(of),
        sequences(std::move(list)),
        kv(of, dtype, 16, totals(sequences)),
        rows(sequences.back().first_row + sequences.back().rows),
        q(random_floats(std::size_t{rows} * of.q * of.size, fresh_seed(), 2)),
        queries(Dtype::kF32, rows, of.q * of.size, q, 32) {
    kv.fill();
  }
  static std::vector<std::uint32_t> totals(const std::vector<PrefillSequence>& list) {
    std::vector<std::uint32_t> out;
    for (const PrefillSequence& s : list) out.push_back(s.context + s.rows);
    return out;
  }

  // Rows [begin, end) of sequence s alone, or (s past the last) all rows.
  void run(TensorView out, std::uint32_t s, std::uint32_t begin, std::uint32_t end) const {
    std::vector<PrefillTile> tiles;
    std::vector<std::uint32_t> positions, sequence;
    TensorView q_rows = queries.view(out.rows);
    std::vector<PrefillSequence> wanted = sequences;
    if (s < sequences.size()) {
      q_rows.data += (sequences[s].first_row + begin) * q_rows.stride * sizeof(float);
      for (PrefillSequence& other : wanted) other.rows = 0;
      wanted[s] = {0, end - begin, sequences[s].context + begin};
    }
    for (std::uint32_t i = 0; i < wanted.size(); ++i) {
      for (std::uint32_t r = 0; r < wanted[i].rows; ++r) {
        positions.push_back(wanted[i].context + r);
        sequence.push_back(i);
      }
    }
    make_prefill_tiles(tiles, wanted, prefill_tile_rows(heads.q, heads.kv));
    const DeviceArray<PrefillTile> device_tiles(tiles);
    const DeviceArray<std::uint32_t> at(positions);
    const DeviceArray<std::uint32_t> of(sequence);
    StagedRows staged = kv.staged();
    staged.positions = at.get();
    staged.sequence = of.get();
    prefill_attention({.out = out,
                       .q = q_rows,
                       .kv = kv.layer(),
                       .rows = staged,
                       .tiles = device_tiles.get(),
                       .tile_count = static_cast<std::uint32_t>(tiles.size())},
                      nullptr);
    expect_ok(cudaDeviceSynchronize());
  }
  std::vector<double> reference() const {
    std::vector<double> out;
    for (std::uint32_t s = 0; s < sequences.size(); ++s) {
      for (std::uint32_t r = 0; r < sequences[s].rows; ++r) {
        const float* row = q.data() + std::size_t{sequences[s].first_row + r} * heads.q * heads.size;
        const auto values = attention_reference(kv, heads, row, s, sequences[s].context + r);
        out.insert(out.end(), values.begin(), values.end());
      }
    }
    return out;
  }
};

TEST_F(CudaAttention, PrefillMatchesTheReference) {
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    for (const Heads heads : kHeads) {
      const PrefillCase c(heads, dtype, {{0, 130, 0}, {130, 1, 70}, {131, 64, 300}, {195, 7, 0}});
      const auto reference = c.reference();
      for (const Dtype dtype_out : {Dtype::kBf16, Dtype::kF32}) {
        const DeviceMatrix out(dtype_out, c.rows, heads.q * heads.size, 8);
        c.run(out.view(), 99, 0, 0);
        out.expect_padding_poisoned(c.rows);
        EXPECT_LE(relative_error(out.floats(), reference), bound(dtype, dtype_out))
            << text(heads, dtype, dtype_out);
      }
    }
  }
}

TEST_F(CudaAttention, PrefillKeepsARowsBitsWhateverTheChunk) {
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    for (const Heads heads : {Heads{32, 4, 128}, Heads{28, 4, 128}, Heads{4, 2, 64}}) {
      const PrefillCase c(heads, dtype, {{0, 200, 90}, {200, 33, 0}});
      const DeviceMatrix all(Dtype::kBf16, c.rows, heads.q * heads.size);
      c.run(all.view(), 99, 0, 0);
      const std::vector<std::byte> whole = all.raw();
      const std::size_t row_bytes = whole.size() / c.rows;
      for (const auto& [begin, end] :
           {std::pair{0U, 200U}, std::pair{0U, 1U}, std::pair{37U, 101U}, std::pair{199U, 200U}}) {
        const DeviceMatrix part(Dtype::kBf16, end - begin, heads.q * heads.size);
        c.run(part.view(), 0, begin, end);
        const std::vector<std::byte> bytes = part.raw();
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(),
                               whole.begin() + static_cast<std::ptrdiff_t>(begin * row_bytes)))
            << text(heads, dtype, Dtype::kBf16) << ", rows " << begin << " to " << end;
      }
    }
  }
}

TEST(PrefillTiles, CoverEveryRowOnce) {
  std::vector<PrefillTile> tiles;
  const std::vector<PrefillSequence> sequences = {{0, 40, 5}, {40, 1, 900}, {41, 16, 0}};
  make_prefill_tiles(tiles, sequences, 16);
  std::vector<int> covered(57);
  for (const PrefillTile& tile : tiles) {
    const PrefillSequence& of = sequences.at(tile.sequence);
    EXPECT_EQ(tile.position, of.context + tile.first_row - of.first_row);
    EXPECT_LE(tile.rows, 16U);
    for (std::uint32_t r = 0; r < tile.rows; ++r) ++covered.at(tile.first_row + r);
  }
  EXPECT_EQ(covered, std::vector<int>(57, 1));
  EXPECT_EQ(tiles.front().sequence, 1U) << "the longest first";
  EXPECT_EQ(prefill_tile_rows(32, 4), 16U);
  EXPECT_EQ(prefill_tile_rows(28, 4), 18U);
}

}  // namespace
}  // namespace lynx::cuda
