#include "kernels/cuda/device.h"

#include <cstdlib>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cuda/portable.h"

namespace lynx::cuda {
namespace {

// A refused call: the device itself is well. Every other error leaves a context that gives nothing any more.
bool passing(cudaError_t status) {
  return status == cudaErrorMemoryAllocation || status == cudaErrorInvalidValue ||
         status == cudaErrorInvalidConfiguration || status == cudaErrorInvalidResourceHandle ||
         status == cudaErrorHostMemoryAlreadyRegistered || status == cudaErrorHostMemoryNotRegistered ||
         status == cudaErrorNotSupported || status == cudaErrorStreamCaptureUnsupported ||
         status == cudaErrorStreamCaptureInvalidated;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error("device 'cuda': " + why); }

void check_driver() {
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    throw NoGpu("device 'cuda': no NVIDIA driver is installed on this machine");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  if (driver / 1000 < runtime / 1000)
    refuse("the NVIDIA driver is too old: it serves CUDA " + version_text(driver) + ", this build needs " +
           version_text(runtime / 1000 * 1000) + " or newer");
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // so that the next call does not report it again
  const std::string text = std::string(call) + ": " + cudaGetErrorString(status);
  if (passing(status)) throw std::runtime_error(text);
  throw DeviceLost("the GPU failed in " + text);
}

std::string capability_fault(const GpuInfo& gpu, bool has_code) {
  const std::string is =
      " and this is a " + gpu.name + " (" + std::to_string(gpu.major) + "." + std::to_string(gpu.minor) + ")";
  if (gpu.major < 8) return "a GPU needs compute capability 8.0 or newer" + is;
  if (has_code) return {};
  return "this build has code for compute capability " LYNX_CUDA_ARCHITECTURES + is +
         ": build with LYNX_CUDA_ARCHITECTURES for it";
}

GpuInfo open_gpu() {
  // Kernels are loaded now and not in the middle of a capture. A caller's own choice wins.
  static_cast<void>(::setenv("CUDA_MODULE_LOADING", "EAGER", 0));
  check_driver();
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    throw NoGpu("device 'cuda': this machine shows no NVIDIA GPU");
  if (status != cudaSuccess) refuse(std::string("the GPU cannot be used: ") + cudaGetErrorString(status));
  cudaDeviceProp properties{};
  if (const cudaError_t set = cudaSetDevice(0); set != cudaSuccess)
    refuse(std::string("the GPU cannot be used: ") + cudaGetErrorString(set));
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  GpuInfo info;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  if (const std::string fault = capability_fault(info, has_portable_code()); !fault.empty()) refuse(fault);
  info.kernels = kernels_of_device();
  std::size_t free = 0;
  std::size_t total = 0;
  if (const cudaError_t memory = cudaMemGetInfo(&free, &total); memory != cudaSuccess)
    refuse(std::string("the GPU cannot be used: ") + cudaGetErrorString(memory));
  info.free_bytes = free;
  info.total_bytes = total;
  return info;
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return Event(event);
}

Capture::Capture(cudaStream_t stream) : stream_(stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

Capture::~Capture() {
  if (!open_) return;
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream_, &graph));
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  static_cast<void>(cudaGetLastError());
}

GraphExec Capture::finish() {
  open_ = false;
  cudaGraph_t raw = nullptr;
  check(cudaStreamEndCapture(stream_, &raw), "cudaStreamEndCapture");
  const Graph graph(raw);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "cudaGraphInstantiate");
  return GraphExec(exec);
}

PinnedMemory::PinnedMemory(std::size_t bytes) {
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), "cudaMallocHost");
  data_.reset(static_cast<std::byte*>(data));
}

DeviceMemory DeviceHeap::take(std::size_t bytes) {
  void* data = nullptr;
  if (const cudaError_t status = cudaMalloc(&data, bytes); status != cudaSuccess) {
    std::size_t free = 0;
    std::size_t total = 0;
    static_cast<void>(cudaMemGetInfo(&free, &total));
    const std::string call = "cudaMalloc of " + std::to_string(bytes >> 20) + " MiB (" +
                             std::to_string(free >> 20) + " MiB are free)";
    check(status, call.c_str());
  }
  *held_ += bytes;
  DeviceMemory memory(static_cast<std::byte*>(data), [held = held_, bytes](std::byte* p) {
    static_cast<void>(cudaFree(p));
    *held -= bytes;
  });
  check(cudaMemset(data, 0, bytes), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaMemset");  // our streams do not wait for this one
  return memory;
}

}  // namespace lynx::cuda
