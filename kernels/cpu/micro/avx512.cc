// Compiled with this instruction set enabled: includes nothing whose inline code could be shared with other
// files.
#include "kernels/cpu/micro/lanes_avx512.h"
#include "kernels/cpu/micro/micro_kernels.h"
#include "kernels/cpu/micro/tables.h"
// After the lanes:
#include "kernels/cpu/micro/lane_math.h"
// After the math:
#include "kernels/cpu/micro/attention_tile.h"
#include "kernels/cpu/micro/matmul_tile.h"

namespace lynx {

const MicroKernels kAvx512Kernels = {"avx512", matmul, attention, rms_norm, rope, widen};

}  // namespace lynx
