#include "kernels/cuda/step_stage.h"

#include <algorithm>
#include <cstring>

#include "common/core/check.h"

namespace lynx::cuda {
namespace {

constexpr std::size_t kAlign = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

StepStage::Offsets StepStage::offsets_for(std::size_t rows, std::size_t logit_rows) {
  const std::size_t bytes[kParts] = {4 * sizeof(std::uint32_t),        rows * sizeof(std::uint32_t),
                                     rows * sizeof(std::uint32_t),     rows * sizeof(std::uint32_t),
                                     rows * sizeof(std::uint8_t),      logit_rows * sizeof(std::uint32_t),
                                     logit_rows * sizeof(SamplingRow), rows * sizeof(PrefillTile)};
  Offsets out{};
  for (std::size_t part = 0; part < kParts; ++part) out[part + 1] = out[part] + aligned(bytes[part]);
  return out;
}

std::size_t StepStage::device_bytes(std::uint32_t rows, std::uint32_t logit_rows) {
  return offsets_for(rows, logit_rows)[kParts];
}

void StepStage::reserve(const StepLimits& limits, DeviceHeap& heap) {
  offsets_ = offsets_for(limits.rows, limits.logit_rows);
  device_ = heap.take(offsets_[kParts]);
  host_ = PinnedMemory(offsets_[kParts]);
  std::memset(host_.data(), 0, offsets_[kParts]);
  context_ = limits.context;
  tile_rows_ = prefill_tile_rows(limits.q_heads, limits.kv_heads);
}

bool StepStage::fit_tables(std::uint32_t sequences, std::uint32_t stride, DeviceHeap& heap) {
  const std::size_t entries = std::size_t{sequences} * stride;
  if (entries <= table_entries_) return false;
  device_tables_ = heap.take(entries * sizeof(BlockId));
  host_tables_ = PinnedMemory(entries * sizeof(BlockId));
  table_entries_ = entries;
  return true;
}

void StepStage::load(const StepBatch& batch, const PageLayout& layout, cudaStream_t stream) {
  load_rows(batch);
  tile_list_.clear();
  if (!batch.decode) load_tiles(batch);
  check(cudaMemcpyAsync(device_.get(), host_.data(), offsets_[kParts], cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync of a step's rows");
  load_tables(batch, table_stride(layout), stream);
}

void StepStage::load_rows(const StepBatch& batch) {
  const std::size_t rows = batch.tokens.size();
  host<std::uint32_t>(kCounts)[0] = static_cast<std::uint32_t>(rows);
  host<std::uint32_t>(kCounts)[1] = static_cast<std::uint32_t>(batch.logit_rows.size());
  std::copy(batch.tokens.begin(), batch.tokens.end(), host<std::uint32_t>(kTokens));
  std::copy(batch.logit_rows.begin(), batch.logit_rows.end(), host<std::uint32_t>(kLogitRows));
  std::fill_n(host<std::uint8_t>(kExact), rows, std::uint8_t{0});
  std::copy(batch.exact_rows.begin(), batch.exact_rows.end(), host<std::uint8_t>(kExact));
  std::uint32_t row = 0;
  for (std::uint32_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceRows& sequence = batch.sequences[s];
    LYNX_CHECK(sequence.first_row == row, "the sequences cover the rows in order");
    LYNX_CHECK(!batch.decode || sequence.rows == 1, "a decode step has one row per sequence");
    for (std::uint32_t i = 0; i < sequence.rows; ++i, ++row) {
      host<std::uint32_t>(kPositions)[row] = sequence.context + i;
      host<std::uint32_t>(kSequence)[row] = s;
    }
  }
  LYNX_CHECK(row == rows, "the sequences cover every row");
  for (std::size_t r = 0; r < batch.logit_rows.size(); ++r) {
    SamplingRow& out = host<SamplingRow>(kSampling)[r];
    out = {};
    out.on_device = 0;
    if (batch.sampling.empty()) continue;
    const RowSampling& in = batch.sampling[r];
    out = {.uniform = in.uniform,
           .temperature = in.temperature,
           .top_p = in.top_p,
           .min_p = in.min_p,
           .top_k = in.top_k,
           .on_device = in.on_device ? 1U : 0U};
  }
}

void StepStage::load_tiles(const StepBatch& batch) {
  sequence_list_.clear();
  for (const SequenceRows& s : batch.sequences) sequence_list_.push_back({s.first_row, s.rows, s.context});
  make_prefill_tiles(tile_list_, sequence_list_, tile_rows_);
  LYNX_CHECK(tile_list_.size() <= batch.tokens.size(), "a tile has a row");
  std::copy(tile_list_.begin(), tile_list_.end(), host<PrefillTile>(kTiles));
}

// Only the entries that this step's rows look up.
void StepStage::load_tables(const StepBatch& batch, std::uint32_t stride, cudaStream_t stream) {
  LYNX_CHECK(batch.sequences.size() * stride <= table_entries_, "a block table for each sequence");
  std::uint32_t used = 0;
  auto* const tables = host_tables_.at<BlockId>(0);
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const std::span<const BlockId> blocks = batch.sequences[s].blocks;
    const auto count = std::min<std::uint32_t>(static_cast<std::uint32_t>(blocks.size()), stride);
    std::copy_n(blocks.begin(), count, tables + s * stride);
    used = std::max(used, count);
  }
  const std::size_t pitch = stride * sizeof(BlockId);
  check(cudaMemcpy2DAsync(device_tables_.get(), pitch, tables, pitch, used * sizeof(BlockId),
                          batch.sequences.size(), cudaMemcpyHostToDevice, stream),
        "cudaMemcpy2DAsync of a step's block tables");
}

StagedRows StepStage::decode_rows(const PageLayout& layout) const {
  StagedRows out = prefill_rows(layout);
  out.sequence = nullptr;
  return out;
}

StagedRows StepStage::prefill_rows(const PageLayout& layout) const {
  return {.positions = device<std::uint32_t>(kPositions),
          .sequence = device<std::uint32_t>(kSequence),
          .tables = reinterpret_cast<const BlockId*>(device_tables_.get()),
          .table_stride = table_stride(layout),
          .live_rows = live_rows()};
}

}  // namespace lynx::cuda
