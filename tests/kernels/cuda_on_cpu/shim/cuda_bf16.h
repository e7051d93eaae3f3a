// Names that warp.cuh has in functions which routing does not call.
#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier): these names are CUDA's.
struct __nv_bfloat162 {
  unsigned short x, y;
};
__nv_bfloat162 __floats2bfloat162_rn(float low, float high);  // nowhere
// NOLINTEND(bugprone-reserved-identifier)
