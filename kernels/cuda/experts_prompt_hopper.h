// The experts of prompts on Hopper: arguments and promises in experts.h. Four launches.
#pragma once

#include "kernels/cuda/experts.h"

namespace lynx::cuda {

void experts_add_prompt_hopper(const ExpertsArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
