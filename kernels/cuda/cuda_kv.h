// A KV pool in device memory. Beside a host pool it is that one's copy, block for block: transports write and
// read the host pool, blocks that they wrote are imported before the step that needs them, and blocks that a
// prefill step wrote are exported layer by layer while the next layers compute; both directions have a stream
// of their own. Without one transports write and read the device's pool itself: nothing is copied, and a
// layer is exported as soon as the step has written it.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/paged_kv.h"

namespace lynx::cuda {

class CudaKvPool final : public KvPool {
 public:
  CudaKvPool(const PageLayout& layout, std::span<std::byte> host, DeviceHeap& heap);
  ~CudaKvPool() override;

  std::byte* device() const { return device_.get(); }
  std::byte* shared() const override { return host() != nullptr ? host() : device(); }
  std::uint64_t serial() const { return serial_; }  // of this pool, never used again
  bool pinned() const { return pinned_; }

 private:
  DeviceMemory device_;
  std::size_t bytes_;
  std::uint64_t serial_;
  bool pinned_ = false;
};

// Consecutive blocks of a block table, so that a run moves as one copy.
struct KvRun {
  BlockId first = 0;
  std::uint32_t blocks = 0;
};
std::vector<KvRun> runs_of(std::span<const BlockId> blocks);

class KvTraffic {
 public:
  KvTraffic();

  void import(const CudaKvPool& kv, std::span<const BlockId> blocks);
  void wait_for_imports(cudaStream_t compute);  // what compute does next sees all imports so far

  // For one step: which blocks its rows touch.
  void begin_exports(std::span<const SequenceRows> sequences, const PageLayout& layout);
  // The layer's KV has been written by what `compute` was given so far.
  void export_layer(const CudaKvPool& kv, std::uint32_t layer, cudaStream_t compute);
  // Waits for each exported layer in turn.
  void finish_exports(const Backend::KvReady& ready);
  // After a failure: no copy reads or writes the host pool any more, whose blocks others get next.
  void abandon() noexcept;

 private:
  struct Layer {
    Event written, exported;
  };
  Stream in_, out_;
  Event imported_;
  bool imports_pending_ = false;
  std::vector<KvRun> runs_;
  std::vector<Layer> layers_;
  std::uint32_t exports_ = 0;  // layers of this step
};

}  // namespace lynx::cuda
