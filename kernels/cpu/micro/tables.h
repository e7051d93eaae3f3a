// One table per instruction set. Reading a table is safe on every machine; calling through it is not.
#pragma once

#include "kernels/cpu/micro/micro_kernels.h"

namespace lynx {

extern const MicroKernels kGenericKernels;
extern const MicroKernels kAvx2Kernels;
extern const MicroKernels kAvx512Kernels;

}  // namespace lynx
