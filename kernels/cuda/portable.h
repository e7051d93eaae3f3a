// The kernels of KernelSet::kPortable. Arguments, promises and results: route.h, experts.h, gemm.h.
#pragma once

#include "kernels/cuda/experts.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/route.h"

namespace lynx::cuda {

void route_portable(const RouteArgs& args, cudaStream_t stream);          // one launch of one block
void experts_add_portable(const ExpertsArgs& args, cudaStream_t stream);  // three launches
void skinny_gemm_portable(const GemmArgs& args, cudaStream_t stream);     // one launch

// Whether this build has code for the current device.
bool has_portable_code();

}  // namespace lynx::cuda
