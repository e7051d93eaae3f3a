// What lies between the experts' two matrices. The kernels of prompts and of decode steps, and those of every
// device, have it from here.
#pragma once

namespace lynx::cuda {

__device__ inline float silu(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

}  // namespace lynx::cuda
