#include "tests/kernels/cuda/attention_case.h"

namespace lynx::cuda {
namespace {

class CudaPrefillAttention : public GpuTest {};

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

TEST_F(CudaPrefillAttention, MatchesTheReference) {
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    for (const Heads heads : kAttentionHeads) {
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

TEST_F(CudaPrefillAttention, KeepsARowsBitsWhateverTheChunk) {
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
