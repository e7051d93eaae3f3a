// What the UCX that this process runs with can do with a GPU's memory.
#pragma once

#include <string>

namespace lynx {

// Whether UCX sends from and receives into it. Debian's does not; one that was built with CUDA does where
// there is a driver. Asks UCX at every call: tens of milliseconds.
bool ucx_moves_device_memory();

std::string ucx_version_name();  // "1.22.0", of the library

}  // namespace lynx
