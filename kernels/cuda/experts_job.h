// What a launch over one of the experts' two matrices gets: experts_portable.cu, experts_prompt.cu,
// experts_prompt_hopper.cu.
#pragma once

#include "kernels/cuda/experts_layout.h"

namespace lynx::cuda {

struct MatrixJob {
  ExpertsArgs args;
  std::uint16_t* activations;  // see ExpertsWorkspace
  float* partial;
  MatrixLayout matrix;  // gate-up or down
  std::size_t expert_bytes;
  std::uint32_t activation_stride;
};

// The first of the two; the second has down_layout.
inline MatrixJob gate_up_job(const ExpertsArgs& args) {
  const ExpertsWorkspace workspace =
      experts_workspace_view(args.workspace, args.shape, args.plan.top_k, args.plan.rows);
  return {.args = args,
          .activations = workspace.activations,
          .partial = workspace.partial,
          .matrix = gate_up_layout(args.shape),
          .expert_bytes = packed_expert_bytes(args.shape),
          .activation_stride = activation_stride(args.shape)};
}

}  // namespace lynx::cuda
