#include "kernels/cuda/rope_store.h"

#include "tests/kernels/cuda/kv_case.h"

namespace lynx::cuda {
namespace {

constexpr std::uint32_t kContext = 400;

class CudaRopeStore : public GpuTest {
 protected:
  // Rows at scattered positions of their own sequences; the last three are padding.
  void check(Heads heads, KvDtype dtype, bool normed) {
    SCOPED_TRACE(std::to_string(heads.q) + "+" + std::to_string(heads.kv) + " heads of " +
                 std::to_string(heads.size) + (dtype == KvDtype::kF32 ? ", f32" : ", bf16"));
    const std::vector<std::uint32_t> positions = {0, 15, 16, 17, 250, 399, 399, 1, 1, 1};
    constexpr std::uint32_t kLive = 7;
    const auto rows = static_cast<std::uint32_t>(positions.size());
    const KvCase kv(heads, dtype, 16, std::vector<std::uint32_t>(rows, kContext));
    const std::uint32_t q_size = heads.q * heads.size;
    const std::uint32_t kv_size = heads.kv * heads.size;
    const std::uint32_t all = q_size + 2 * kv_size;
    const auto qkv = random_floats(std::size_t{rows} * all, fresh_seed(), 2);
    const auto q_weight = normed ? random_floats(heads.size, fresh_seed()) : std::vector<float>{};
    const auto k_weight = normed ? random_floats(heads.size, fresh_seed()) : std::vector<float>{};
    const auto rope = rope_table(kContext, heads.size);
    const DeviceMatrix input(Dtype::kF32, rows, all, qkv);
    const DeviceMatrix table(Dtype::kF32, kContext, heads.size, rope);
    const DeviceMatrix norms(Dtype::kF32, 2, heads.size,
                             normed ? random_floats(2 * heads.size, 1) : std::vector<float>(2 * heads.size));
    const DeviceArray<std::uint32_t> at(positions);
    const DeviceArray<std::uint32_t> live(std::vector<std::uint32_t>{kLive});
    DeviceMatrix q_norm(Dtype::kF32, 1, heads.size);
    DeviceMatrix k_norm(Dtype::kF32, 1, heads.size);
    if (normed) q_norm.upload(q_weight), k_norm.upload(k_weight);

    StagedRows staged = kv.staged();
    staged.positions = at.get();
    staged.live_rows = live.get();
    rope_store({.q = input.view().columns(0, q_size),
                .k = input.view().columns(q_size, kv_size),
                .v = input.view().columns(q_size + kv_size, kv_size),
                .q_weight = normed ? q_norm.view() : TensorView{},
                .k_weight = normed ? k_norm.view() : TensorView{},
                .eps = kHeadEps,
                .rope = table.view(),
                .kv = kv.layer(),
                .rows = staged},
               nullptr);

    const std::vector<float> after = input.floats();
    std::vector<std::byte> pool = kv.download();
    std::vector<float> q_out, k_out, v_out;
    std::vector<double> q_ref, k_ref, v_ref;
    const auto take = [&](std::size_t offset, std::vector<float>& out) {  // a token's heads leave the pool
      const std::size_t size = bytes_of(dtype);
      for (std::uint32_t i = 0; i < kv_size; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, pool.data() + offset + i * size, size);
        out.push_back(size == 4 ? std::bit_cast<float>(bits) : bf16_to_f32(static_cast<std::uint16_t>(bits)));
      }
      std::fill_n(pool.begin() + static_cast<std::ptrdiff_t>(offset), kv_size * size, std::byte{0xFF});
    };
    for (std::uint32_t r = 0; r < rows; ++r) {
      const float* in = qkv.data() + std::size_t{r} * all;
      if (r >= kLive) {
        for (std::uint32_t c = 0; c < all; ++c) ASSERT_EQ(after[r * all + c], in[c]) << "padding row " << r;
        continue;
      }
      const float* turn = rope.data() + positions[r] * heads.size;
      for (std::uint32_t h = 0; h < heads.q; ++h) {
        for (const double x : norm_rope_reference(in + h * heads.size, q_weight, turn, heads.size))
          q_ref.push_back(x);
      }
      for (std::uint32_t h = 0; h < heads.kv; ++h) {
        for (const double x : norm_rope_reference(in + q_size + h * heads.size, k_weight, turn, heads.size))
          k_ref.push_back(x);
      }
      for (std::uint32_t i = 0; i < kv_size; ++i) v_ref.push_back(in[q_size + kv_size + i]);
      q_out.insert(q_out.end(), after.begin() + r * all, after.begin() + r * all + q_size);
      take(kv.k_offset(r, positions[r]), k_out);
      take(kv.v_offset(r, positions[r]), v_out);
    }
    const double bound = allowed(dtype == KvDtype::kF32 ? Dtype::kF32 : Dtype::kBf16);
    EXPECT_LE(relative_error(q_out, q_ref), 1e-4);
    EXPECT_LE(relative_error(k_out, k_ref), bound);
    EXPECT_LE(relative_error(v_out, v_ref), bound);
    EXPECT_TRUE(std::all_of(pool.begin(), pool.end(), [](std::byte b) { return b == std::byte{0xFF}; }))
        << "the pool was written elsewhere";
  }
};

TEST_F(CudaRopeStore, MatchesTheReference) {
  for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16}) {
    for (const Heads heads :
         {Heads{32, 4, 128}, Heads{4, 2, 64}, Heads{28, 4, 128}, Heads{3, 1, 96}, Heads{8, 8, 256}})
      check(heads, dtype, true);
  }
}

TEST_F(CudaRopeStore, WithoutNorms) {
  check({32, 8, 128}, KvDtype::kBf16, false);
  check({4, 2, 64}, KvDtype::kF32, false);
}

}  // namespace
}  // namespace lynx::cuda
