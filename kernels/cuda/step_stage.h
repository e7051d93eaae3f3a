// The rows of a step in device memory: written by the host once per step, at addresses that stay, so that a
// captured graph finds every step's rows where it found the first one's.
#pragma once

#include <array>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/paged_kv.h"
#include "kernels/cuda/sampling.h"

namespace lynx::cuda {

class StepStage {
 public:
  // For steps up to `limits`; the addresses change.
  void reserve(const StepLimits& limits, DeviceHeap& heap);
  // What reserve takes.
  static std::size_t device_bytes(std::uint32_t rows, std::uint32_t logit_rows);
  // Entries of a block table: the same in every step of a pool.
  std::uint32_t table_stride(const PageLayout& layout) const { return layout.blocks_for(context_); }
  // Room for that many block tables. True: the addresses of the tables have changed.
  bool fit_tables(std::uint32_t sequences, std::uint32_t stride, DeviceHeap& heap);

  // The copies are on the stream when this returns; the step's kernels come after them. Not before the last
  // step is collected.
  void load(const StepBatch& batch, const PageLayout& layout, cudaStream_t stream);

  const std::uint32_t* live_rows() const { return device<std::uint32_t>(kCounts); }
  const std::uint32_t* live_logit_rows() const { return live_rows() + 1; }
  const std::uint32_t* tokens() const { return device<std::uint32_t>(kTokens); }
  const std::uint32_t* logit_rows() const { return device<std::uint32_t>(kLogitRows); }
  const std::uint8_t* exact() const { return device<std::uint8_t>(kExact); }
  const SamplingRow* sampling() const { return device<SamplingRow>(kSampling); }
  // Of a decode step: row i is sequence i.
  StagedRows decode_rows(const PageLayout& layout) const;
  StagedRows prefill_rows(const PageLayout& layout) const;
  const PrefillTile* tiles() const { return device<PrefillTile>(kTiles); }
  std::uint32_t tile_count() const { return static_cast<std::uint32_t>(tile_list_.size()); }

 private:
  enum Part { kCounts, kTokens, kPositions, kSequence, kExact, kLogitRows, kSampling, kTiles, kParts };
  using Offsets = std::array<std::size_t, kParts + 1>;  // the last: bytes in all
  static Offsets offsets_for(std::size_t rows, std::size_t logit_rows);

  template <typename T>
  T* device(Part part) const {
    return reinterpret_cast<T*>(device_.get() + offsets_[part]);
  }
  template <typename T>
  T* host(Part part) const {
    return host_.at<T>(offsets_[part]);
  }
  void load_rows(const StepBatch& batch);
  void load_tiles(const StepBatch& batch);
  void load_tables(const StepBatch& batch, std::uint32_t stride, cudaStream_t stream);

  Offsets offsets_{};
  PinnedMemory host_;
  DeviceMemory device_;
  PinnedMemory host_tables_;
  DeviceMemory device_tables_;
  std::size_t table_entries_ = 0;
  std::uint32_t context_ = 0;
  std::uint32_t tile_rows_ = 0;
  std::vector<PrefillTile> tile_list_;
  std::vector<PrefillSequence> sequence_list_;
};

}  // namespace lynx::cuda
