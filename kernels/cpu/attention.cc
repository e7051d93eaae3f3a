// Paged attention for prefill chunks and decode rows alike. The work is cut into (sequence, KV head, group of
// positions); the query heads of a KV head and the positions of a group share each loaded key (GQA).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/core/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace lynx {
namespace {

// One layer of the pool, as the step's rows see it.
struct PagedKv {
  std::byte* pool;
  const PageLayout* layout;
  std::uint32_t layer;
  std::span<const SequenceRows> sequences;
};

constexpr std::uint32_t kGroupRows = 32;  // query rows that a group aims for

struct Heads {
  std::uint32_t size, kv, per_kv;  // D, Hkv, Hq / Hkv
  std::uint32_t group_positions() const { return std::max(1U, kGroupRows / per_kv); }
};

struct Group {
  const SequenceRows* sequence;
  std::uint32_t kv_head, first, positions;  // rows [first, first + positions) of the sequence

  // Products, roughly: what balances the workers.
  std::uint64_t cost() const { return std::uint64_t{positions} * (sequence->context + first + positions); }
};

template <typename Visit>
void for_each_group(const PagedKv& kv, const Heads& heads, const Visit& visit) {
  for (const SequenceRows& sequence : kv.sequences) {
    for (std::uint32_t head = 0; head < heads.kv; ++head) {
      for (std::uint32_t first = 0; first < sequence.rows; first += heads.group_positions()) {
        visit(Group{&sequence, head, first, std::min(heads.group_positions(), sequence.rows - first)});
      }
    }
  }
}

KvHeadView head_view(const PagedKv& kv, const Group& group) {
  const PageLayout& layout = *kv.layout;
  const std::size_t head_bytes = layout.head_dim * bytes_of(layout.dtype);
  return {.layer = kv.pool + layout.k_offset(kv.layer, 0, 0) + group.kv_head * head_bytes,
          .blocks = group.sequence->blocks.data(),
          .block_bytes = layout.block_bytes(),
          .token_bytes = layout.token_bytes(),
          .v_offset = layout.v_offset(kv.layer, 0, 0) - layout.k_offset(kv.layer, 0, 0),
          .block_tokens = layout.block_tokens,
          .bf16 = layout.dtype == KvDtype::kBf16};
}

void attend(const MicroKernels& micro, CpuScratch::PerWorker& scratch, const PagedKv& kv, const Heads& heads,
            const Group& group, TensorView out, TensorView q) {
  const std::uint32_t rows = group.positions * heads.per_kv;
  const std::uint32_t first_position = group.sequence->context + group.first;
  const std::size_t stride = (std::size_t{first_position} + group.positions + kPanel - 1) / kPanel * kPanel;
  scratch.queries.resize(std::max(scratch.queries.size(), std::size_t{rows} * heads.size));
  scratch.scores.resize(std::max(scratch.scores.size(), rows * stride));
  scratch.keys.resize(std::size_t{heads.size} * kPanel);
  scratch.tokens.resize(std::max(scratch.tokens.size(), stride));
  scratch.outputs.resize(rows);
  scratch.visible.resize(rows);

  const float scale = 1.0F / std::sqrt(static_cast<float>(heads.size));
  for (std::uint32_t r = 0; r < rows; ++r) {
    const std::uint32_t position = r / heads.per_kv;
    const std::size_t batch_row = std::size_t{group.sequence->first_row} + group.first + position;
    const std::size_t column = (std::size_t{group.kv_head} * heads.per_kv + r % heads.per_kv) * heads.size;
    const float* query = q.f32_row(batch_row) + column;
    for (std::uint32_t d = 0; d < heads.size; ++d) scratch.queries[r * heads.size + d] = query[d] * scale;
    scratch.outputs[r] = out.f32_row(batch_row) + column;
    scratch.visible[r] = first_position + position + 1;
  }
  micro.attention({.kv = head_view(kv, group),
                   .q = scratch.queries.data(),
                   .out = scratch.outputs.data(),
                   .visible = scratch.visible.data(),
                   .scores = scratch.scores.data(),
                   .keys = scratch.keys.data(),
                   .tokens = scratch.tokens.data(),
                   .score_stride = stride,
                   .rows = rows,
                   .head_dim = heads.size});
}

void store_token(std::byte* to, const float* values, std::uint32_t count, KvDtype dtype) {
  if (dtype == KvDtype::kF32) {
    std::memcpy(to, values, count * sizeof(float));
    return;
  }
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  for (std::uint32_t i = 0; i < count; ++i) out[i] = f32_to_bf16(values[i]);
}

}  // namespace

void CpuBackend::attention(TensorView out, const AttentionRows& in, std::uint32_t layer) {
  norm_rope(in.q, in.norms.q, in.norms.eps, in.rope);
  norm_rope(in.k, in.norms.k, in.norms.eps, in.rope);
  write_kv(layer, in.k, in.v);
  if (step_.kv_ready) step_.kv_ready(layer);
  attend_rows(out, in.q, layer);
}

void CpuBackend::write_kv(std::uint32_t layer, TensorView k, TensorView v) {
  const PageLayout& layout = step_.kv->layout();
  std::byte* const pool = step_.kv->host();
  LYNX_CHECK(k.cols == layout.kv_heads * layout.head_dim && v.cols == k.cols, "write_kv: shapes");
  for (const SequenceRows& sequence : step_.batch.sequences) {
    LYNX_CHECK(layout.blocks_for(sequence.context + sequence.rows) <= sequence.blocks.size(),
               "write_kv: block table too short");
    for (std::uint32_t i = 0; i < sequence.rows; ++i) {
      const std::uint32_t position = sequence.context + i;
      const BlockId block = sequence.blocks[position / layout.block_tokens];
      const std::uint32_t slot = position % layout.block_tokens;
      LYNX_CHECK(block < layout.blocks, "write_kv: block outside the pool");
      const std::size_t row = std::size_t{sequence.first_row} + i;
      store_token(pool + layout.k_offset(layer, block, slot), k.f32_row(row), k.cols, layout.dtype);
      store_token(pool + layout.v_offset(layer, block, slot), v.f32_row(row), v.cols, layout.dtype);
    }
  }
}

void CpuBackend::attend_rows(TensorView out, TensorView q, std::uint32_t layer) {
  const PageLayout& layout = step_.kv->layout();
  const PagedKv kv{step_.kv->host(), &layout, layer, step_.batch.sequences};
  const Heads heads{layout.head_dim, layout.kv_heads, q.cols / (layout.head_dim * layout.kv_heads)};
  LYNX_CHECK(out.cols == q.cols && q.cols == heads.size * heads.kv * heads.per_kv, "attention: shapes");
  LYNX_CHECK(heads.size % kLanes == 0 && heads.per_kv >= 1 && heads.per_kv <= kAttentionRows,
             "attention: heads");

  std::uint64_t total = 0;
  for_each_group(kv, heads, [&](const Group& group) { total += group.cost(); });
  // Each group goes to the worker in whose share of the total cost its middle falls.
  pool_.run([&](unsigned worker) {
    std::uint64_t before = 0;
    for_each_group(kv, heads, [&](const Group& group) {
      const std::uint64_t middle = before + group.cost() / 2;
      before += group.cost();
      if (middle * pool_.size() / total == worker)
        attend(micro_, scratch_.workers[worker], kv, heads, group, out, q);
    });
  });
}

}  // namespace lynx
