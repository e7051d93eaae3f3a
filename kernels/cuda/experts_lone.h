// A decode step's layer of one row: see experts_lone.cu. The bits of the row are those of experts_add.
//
// The blocks wait for one another: as in attention_block.h, nothing else that waits may share the
// multiprocessors at the same time, another backend's steps on the same GPU in the same process among them.
#pragma once

#include "kernels/cuda/experts.h"

namespace lynx::cuda {

// Whether experts_add goes by it: one row, all blocks resident, and work that shares out evenly among them,
// which depends on how many multiprocessors there are.
bool lone_row_takes(const ExpertsArgs& args);
void experts_add_lone_row(const ExpertsArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
