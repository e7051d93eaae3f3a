// A layer up to its experts, for the tests of attention_block.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_block.h"
#include "tests/kernels/cuda/kv_case.h"

namespace lynx::cuda {

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

  BlockCase(LayerSize of, std::vector<std::uint32_t> lengths, std::uint32_t live_rows,
            std::uint32_t block_tokens = 16)
      : size(of),
        contexts(std::move(lengths)),
        q_size(of.heads.q * of.heads.size),
        kv_size(of.heads.kv * of.heads.size),
        max_context(*std::max_element(contexts.begin(), contexts.end())),
        kv(of.heads, KvDtype::kBf16, block_tokens, contexts),
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

  // x from `hidden`, and poison wherever a launch finds what another left: a part that is attended by nobody,
  // or a token that is not written, shows.
  void start_over() {
    x.upload(hidden);
    normed.poison();
    qkv_rows.poison();
    attended.poison();
    workspace.poison();  // the Hopper kernels count nothing in it
    for (std::uint32_t r = 0; r < rows(); ++r) kv.poison(r, contexts[r] - 1);
  }
  // The rows' bits and the pool's after it.
  struct Bits {
    std::vector<std::byte> x, pool;
    bool operator==(const Bits&) const = default;
    // Rows [first, first + count), gaps included.
    std::vector<std::byte> rows(std::size_t first, std::size_t count, std::size_t row_bytes) const {
      return {x.begin() + static_cast<std::ptrdiff_t>(first * row_bytes),
              x.begin() + static_cast<std::ptrdiff_t>((first + count) * row_bytes)};
    }
  };
  std::size_t row_bytes() const { return x.view().stride * sizeof(float); }
  Bits bits(const AttentionBlockArgs& a) const {
    return {DeviceArray<std::byte>::download_from(a.x.data, a.x.rows * row_bytes()), kv.download()};
  }
  template <typename Block>
  Bits run(const Block& block, const AttentionBlockArgs& a) {
    start_over();
    block(a, nullptr);
    return bits(a);
  }
};

}  // namespace lynx::cuda
