#include <stdexcept>
#include <thread>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"

namespace lynx {

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  if (options.device == "cpu") {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    return std::make_unique<CpuBackend>(options.threads == 0 ? cores : options.threads, best_micro_kernels());
  }
  throw std::runtime_error("device '" + options.device + "': this build knows only 'cpu'");
}

}  // namespace lynx
