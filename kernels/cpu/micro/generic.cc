// Compiled for the base x86-64, or any other machine.
#include "kernels/cpu/micro/lanes_generic.h"
#include "kernels/cpu/micro/micro_kernels.h"
#include "kernels/cpu/micro/tables.h"
// After the lanes:
#include "kernels/cpu/micro/lane_math.h"
// After the math:
#include "kernels/cpu/micro/attention_tile.h"
#include "kernels/cpu/micro/matmul_tile.h"

namespace lynx {

const MicroKernels kGenericKernels = {"generic", matmul, attention, rms_norm, rope, widen};

}  // namespace lynx
