#include "kernels/cuda/cuda_kv.h"

#include <atomic>

#include "common/core/check.h"
#include "common/core/log.h"

namespace lynx::cuda {
namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// The copy engine takes rows at a pitch below this.
constexpr std::size_t kMaxPitch = 0x7FFFFFFF;

}  // namespace

CudaKvPool::CudaKvPool(const PageLayout& layout, std::span<std::byte> host, DeviceHeap& heap)
    : KvPool(layout, host),
      device_(heap.take(layout.pool_bytes())),
      bytes_(host.size()),
      serial_(next_serial()) {
  if (host.empty()) return;
  const cudaError_t status = cudaHostRegister(host.data(), bytes_, cudaHostRegisterDefault);
  pinned_ = status == cudaSuccess;
  if (pinned_) return;
  static_cast<void>(cudaGetLastError());
  log::warn("the KV pool's host memory cannot be page-locked ({}): copies to the GPU will be slow",
            cudaGetErrorString(status));
}

CudaKvPool::~CudaKvPool() {
  if (pinned_) static_cast<void>(cudaHostUnregister(host()));
}

std::vector<KvRun> runs_of(std::span<const BlockId> blocks) {
  std::vector<KvRun> out;
  for (const BlockId block : blocks) {
    if (!out.empty() && out.back().first + out.back().blocks == block) {
      ++out.back().blocks;
    } else {
      out.push_back({block, 1});
    }
  }
  return out;
}

KvTraffic::KvTraffic() : in_(make_stream()), out_(make_stream()), imported_(make_event()) {}

void KvTraffic::import(const CudaKvPool& kv, std::span<const BlockId> blocks) {
  if (kv.host() == nullptr) return;  // there already, before this process heard of it
  const PageLayout& layout = kv.layout();
  const std::size_t pitch = layout.blocks * layout.block_bytes();  // from layer to layer
  for (const KvRun& run : runs_of(blocks)) {
    LYNX_CHECK(run.first + run.blocks <= layout.blocks, "import_kv: block outside the pool");
    const std::size_t width = run.blocks * layout.block_bytes();
    if (pitch < kMaxPitch) {
      const std::size_t offset = layout.block_offset(0, run.first);
      check(cudaMemcpy2DAsync(kv.device() + offset, pitch, kv.host() + offset, pitch, width, layout.layers,
                              cudaMemcpyHostToDevice, in_.get()),
            "cudaMemcpy2DAsync of handed-over KV");
      continue;
    }
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer) {
      const std::size_t offset = layout.block_offset(layer, run.first);
      check(
          cudaMemcpyAsync(kv.device() + offset, kv.host() + offset, width, cudaMemcpyHostToDevice, in_.get()),
          "cudaMemcpyAsync of handed-over KV");
    }
  }
  check(cudaEventRecord(imported_.get(), in_.get()), "cudaEventRecord");
  imports_pending_ = true;
}

void KvTraffic::wait_for_imports(cudaStream_t compute) {
  if (!std::exchange(imports_pending_, false)) return;
  check(cudaStreamWaitEvent(compute, imported_.get(), 0), "cudaStreamWaitEvent");
}

void KvTraffic::begin_exports(std::span<const SequenceRows> sequences, const PageLayout& layout) {
  exports_ = 0;
  runs_.clear();
  for (const SequenceRows& s : sequences) {
    const std::uint32_t first = s.context / layout.block_tokens;
    const std::uint32_t end = layout.blocks_for(s.context + s.rows);
    const std::vector<KvRun> runs = runs_of(s.blocks.subspan(first, end - first));
    runs_.insert(runs_.end(), runs.begin(), runs.end());
  }
}

void KvTraffic::export_layer(const CudaKvPool& kv, std::uint32_t layer, cudaStream_t compute) {
  LYNX_CHECK(layer == exports_, "the layers of a step come in order");
  if (layers_.size() == layer) layers_.push_back({make_event(), make_event()});
  const Layer& events = layers_[exports_++];
  if (kv.host() == nullptr) return check(cudaEventRecord(events.exported.get(), compute), "cudaEventRecord");
  check(cudaEventRecord(events.written.get(), compute), "cudaEventRecord");
  check(cudaStreamWaitEvent(out_.get(), events.written.get(), 0), "cudaStreamWaitEvent");
  const PageLayout& layout = kv.layout();
  for (const KvRun& run : runs_) {
    const std::size_t offset = layout.block_offset(layer, run.first);
    check(cudaMemcpyAsync(kv.host() + offset, kv.device() + offset, run.blocks * layout.block_bytes(),
                          cudaMemcpyDeviceToHost, out_.get()),
          "cudaMemcpyAsync of a layer's KV");
  }
  check(cudaEventRecord(events.exported.get(), out_.get()), "cudaEventRecord");
}

void KvTraffic::finish_exports(const Backend::KvReady& ready) {
  for (std::uint32_t layer = 0; layer < exports_; ++layer) {
    check(cudaEventSynchronize(layers_[layer].exported.get()), "the copy of a layer's KV");
    ready(layer);
  }
  exports_ = 0;
}

void KvTraffic::abandon() noexcept {
  static_cast<void>(cudaStreamSynchronize(in_.get()));
  static_cast<void>(cudaStreamSynchronize(out_.get()));
  exports_ = 0;
}

}  // namespace lynx::cuda
