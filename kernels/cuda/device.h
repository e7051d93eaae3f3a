// The GPU, its memory, and one RAII type for each kind of CUDA handle. Every failed call throws
// std::runtime_error with the call and CUDA's reason: DeviceLost when the error stays with the process, so
// that nothing on the device can go on.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "kernels/cuda/kernel_set.h"
#include "kernels/tensor.h"

namespace lynx::cuda {

void check(cudaError_t status, const char* call);

struct GpuInfo {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  KernelSet kernels = KernelSet::kHopper;
  int multiprocessors = 0;
  std::uint64_t free_bytes = 0, total_bytes = 0;
};

// Makes the first visible GPU the current one. Throws NoGpu where there is no driver or no GPU, and otherwise
// std::runtime_error saying in one sentence what is wrong: a driver too old for this build, a GPU that this
// build has no code for or that cannot be used.
GpuInfo open_gpu();

// Why a GPU of that compute capability is not taken, or empty. has_code: this build's plain kernels run on
// it.
std::string capability_fault(const GpuInfo& gpu, bool has_code);

template <typename Handle, cudaError_t (*Destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  ~Owned() {
    if (handle_ != nullptr) static_cast<void>(Destroy(handle_));
  }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

Stream make_stream();
Event make_event();  // without timing

// Captures what is launched on a stream from here to finish(). Left early (by an exception), the stream is
// usable again and the graph is dropped.
class Capture {
 public:
  explicit Capture(cudaStream_t stream);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  GraphExec finish();

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

// Page-locked host memory, which copies to and from the device overlap with everything else.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  template <typename T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(data_.get() + offset);
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { static_cast<void>(cudaFreeHost(p)); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

// Hands out device memory and counts what is held. Memory may outlive it.
class DeviceHeap {
 public:
  DeviceMemory take(std::size_t bytes);  // zeroed
  std::uint64_t held() const { return *held_; }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> held_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace lynx::cuda
