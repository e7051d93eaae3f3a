// A decode step's layer of one row: see experts_lone.cu. The bits of the row are those of experts_add.
#pragma once

#include "kernels/cuda/experts.h"

namespace lynx::cuda {

// Whether experts_add goes by it: one row, all blocks resident, and work that shares out evenly among them.
bool lone_row_takes(const ExpertsArgs& args);
void experts_add_lone_row(const ExpertsArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
