#include "loadtest/bench/kv_between_gpus.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "kernels/bench/device_roofline.h"
#include "kernels/cuda/cuda_kv.h"
#include "kernels/cuda/device.h"
#include "loadtest/bench/child_process.h"
#include "loadtest/bench/kv_peer_process.h"
#include "services/engine/kv_cache.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kLayers = 8;
constexpr std::uint32_t kPrompts = 4;  // under way at once
constexpr int kCopies = 20;

std::uint32_t blocks_of(const BetweenGpus& run) { return run.push_kilobytes / kGpuBenchBlockKilobytes; }

PageLayout layout_of(const BetweenGpus& run) {
  return {.layers = kLayers,
          .blocks = kPrompts * blocks_of(run),
          .block_tokens = 16,
          .kv_heads = 4,
          .head_dim = 128,
          .dtype = KvDtype::kBf16};
}

// One worker's side: its GPU's pool, and the host's beside it where the path needs one.
struct Side {
  explicit Side(const BetweenGpus& run)
      : layout(layout_of(run)),
        gpu(cuda::open_gpu()),
        cache(layout, KvCache::Fill::kNow, memory_of(run.path)),
        pool(layout, cache.bytes(), heap),
        compute(cuda::make_stream()) {
    cuda::fill_random_bf16(pool.device(), layout.pool_bytes() / 2, 1.0F, 1, compute.get());
    cuda::check(cudaStreamSynchronize(compute.get()), "cudaStreamSynchronize");
  }
  std::vector<BlockId> blocks(std::uint32_t prompt) const {
    std::vector<BlockId> out(layout.blocks / kPrompts);
    std::iota(out.begin(), out.end(), prompt * static_cast<BlockId>(out.size()));
    return out;
  }

  PageLayout layout;
  cuda::GpuInfo gpu;
  cuda::DeviceHeap heap;
  KvCache cache;
  cuda::CudaKvPool pool;
  cuda::Stream compute;
  cuda::KvTraffic traffic;
};

// Prompt after prompt: its layers leave the GPU one by one and are pushed as they are out.
class Prefill {
 public:
  Prefill(Side& side, BenchTarget target)
      : side_(side), target_(std::move(target)), layers_left_(kPrompts, 0) {}

  void push_until(UcxTransport& transport, Clock::time_point end) {
    while (clock_.now() < end) {
      const auto free = std::find(layers_left_.begin(), layers_left_.end(), 0U);
      if (free != layers_left_.end())
        hand_over(transport, static_cast<std::uint32_t>(free - layers_left_.begin()));
      turn(transport);
      if (failed_) throw std::runtime_error("KV push: " + failed_->message);
    }
  }
  std::uint64_t acknowledged() const { return acknowledged_; }

 private:
  void hand_over(UcxTransport& transport, std::uint32_t prompt) {
    const std::vector<BlockId> blocks = side_.blocks(prompt);
    const auto tokens = static_cast<std::uint32_t>(blocks.size()) * side_.layout.block_tokens;
    const SequenceRows rows{0, tokens, 0, blocks};
    side_.traffic.begin_exports({&rows, 1}, side_.layout);
    for (std::uint32_t layer = 0; layer < kLayers; ++layer)
      side_.traffic.export_layer(side_.pool, layer, side_.compute.get());
    layers_left_[prompt] = kLayers;
    side_.traffic.finish_exports([&](std::uint32_t layer) { push(transport, prompt, layer, blocks); });
  }

  void push(UcxTransport& transport, std::uint32_t prompt, std::uint32_t layer,
            const std::vector<BlockId>& blocks) {
    const auto count = static_cast<std::uint32_t>(blocks.size());
    const std::span<const std::byte> bytes(
        side_.pool.shared() + side_.layout.block_offset(layer, blocks.front()),
        count * side_.layout.block_bytes());
    transport.push({target_.peer,
                    {target_.lease, side_.layout.fingerprint(), layer, blocks.front(), count, std::nullopt},
                    bytes,
                    clock_.now() + 10s},
                   [this, prompt](Result<std::uint64_t> result) {
                     --layers_left_[prompt];
                     if (result.ok()) {
                       acknowledged_ += *result;
                     } else {
                       failed_ = result.error();
                     }
                   });
    transport.progress();
  }

  Side& side_;
  BenchTarget target_;
  SteadyClock clock_;
  std::vector<std::uint32_t> layers_left_;  // of each prompt, without an answer
  std::uint64_t acknowledged_ = 0;
  std::optional<Error> failed_;
};

std::string as_flag(const BetweenGpus& run) {
  return std::string(to_string(run.path)) + "," + run.transport + "," + std::to_string(run.push_kilobytes);
}

// Without it a copy from GPU to GPU goes through the host.
void allow_peer_access(int from, int to) {
  int possible = 0;
  cuda::check(cudaDeviceCanAccessPeer(&possible, from, to), "cudaDeviceCanAccessPeer");
  if (possible == 0) return;
  cuda::check(cudaSetDevice(from), "cudaSetDevice");
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  cuda::check(status, "cudaDeviceEnablePeerAccess");
}

}  // namespace

double hand_over_rate(const BetweenGpus& run, std::chrono::milliseconds time) {
  ChildProcess receiver({"/proc/self/exe", "kv", "--receive-on-gpu", as_flag(run)},
                        {"CUDA_VISIBLE_DEVICES=" + std::to_string(run.receiver_gpu)});
  const BenchTarget target = read_target(receiver.read_line(30s).value_or(""));
  Side side(run);
  const SteadyClock clock;
  Prefill prefill(side, target);  // before the transport, which ends what is under way
  UcxTransport transport(bench_ucx_config(run.transport), clock, std::nullopt, memory_of(run.path));
  prefill.push_until(transport, clock.now() + time / 2);  // connects and warms up
  const auto start = clock.now();
  const std::uint64_t before = prefill.acknowledged();
  prefill.push_until(transport, start + time);
  return static_cast<double>(prefill.acknowledged() - before) / seconds(clock.now() - start);
}

double device_copy_rate(const BetweenGpus& run) {
  if (run.receiver_gpu != 0) {
    allow_peer_access(0, run.receiver_gpu);
    allow_peer_access(run.receiver_gpu, 0);
  }
  const std::size_t bytes = std::size_t{run.push_kilobytes} * 1024;
  cuda::check(cudaSetDevice(run.receiver_gpu), "cudaSetDevice");
  cuda::DeviceHeap heap;
  const DeviceMemory to = heap.take(bytes * kPrompts);
  cuda::check(cudaSetDevice(0), "cudaSetDevice");
  const DeviceMemory from = heap.take(bytes * kPrompts);
  const cuda::Stream stream = cuda::make_stream();
  const SteadyClock clock;
  std::vector<double> rates;
  for (int i = 0; i < kCopies; ++i) {
    const auto start = clock.now();
    for (std::uint32_t piece = 0; piece < kPrompts; ++piece)
      cuda::check(cudaMemcpyPeerAsync(to.get() + piece * bytes, run.receiver_gpu, from.get() + piece * bytes,
                                      0, bytes, stream.get()),
                  "cudaMemcpyPeerAsync");
    cuda::check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    rates.push_back(static_cast<double>(bytes * kPrompts) / seconds(clock.now() - start));
  }
  std::nth_element(rates.begin(), rates.begin() + kCopies / 2, rates.end());
  return rates[kCopies / 2];
}

void receive_between_gpus(const BetweenGpus& run) {
  Side side(run);
  const SteadyClock clock;
  std::vector<std::uint32_t> landed(kPrompts, 0);  // layers
  const std::uint32_t run_blocks = blocks_of(run);
  BenchSink sink(side.layout, clock, side.pool.shared(), [&](const KvPushHeader& header) {
    const std::uint32_t prompt = header.first_block / run_blocks;
    if (++landed[prompt] % kLayers == 0) side.traffic.import(side.pool, side.blocks(prompt));
  });
  UcxTransport decode(bench_ucx_config(run.transport), clock,
                      KvReceiver{&sink, side.layout, kBenchIncarnation}, memory_of(run.path));
  print_target(decode.address(), sink.lease_all());
  receive_until_stdin_closes(decode, clock);
  cuda::check(cudaDeviceSynchronize(), "the last copies");
}

}  // namespace lynx
