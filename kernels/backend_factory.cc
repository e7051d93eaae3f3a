#include <algorithm>
#include <stdexcept>
#include <thread>

#include "common/core/log.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/device_budget.h"
#ifdef LYNX_WITH_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace lynx {
namespace {

std::unique_ptr<Backend> make_cpu(const BackendOptions& options) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return std::make_unique<CpuBackend>(options.threads == 0 ? cores : options.threads, best_micro_kernels());
}

std::unique_ptr<Backend> make_cuda([[maybe_unused]] const BackendOptions& options) {
#ifdef LYNX_WITH_CUDA
  return std::make_unique<cuda::CudaBackend>(options.repeat_steps);
#else
  throw std::runtime_error("device 'cuda': this build has no CUDA code (CMake preset 'cuda')");
#endif
}

}  // namespace

std::optional<DeviceSpace> device_space(const std::string& device) {
#ifdef LYNX_WITH_CUDA
  if (device != "cpu") {
    try {
      const cuda::GpuInfo gpu = cuda::open_gpu();
      return DeviceSpace{gpu.name, gpu.free_bytes};
    } catch (const std::exception& e) {
      if (device != "auto") throw;
      log::info("{}: computing on the CPU", e.what());
      return std::nullopt;
    }
  }
#endif
  if (device == "cuda") static_cast<void>(make_cuda({}));  // says why not
  return std::nullopt;
}

#ifndef LYNX_WITH_CUDA
DeviceBudget device_budget(const DeviceNeeds&) {
  throw std::runtime_error("device_budget: this build has no CUDA code");
}
#endif

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  if (options.device == "cpu") return make_cpu(options);
  if (options.device == "cuda") return make_cuda(options);
  if (options.device == "auto") return device_space("auto") ? make_cuda(options) : make_cpu(options);
  throw std::runtime_error("device '" + options.device + "' is not one of auto, cpu, cuda");
}

}  // namespace lynx
