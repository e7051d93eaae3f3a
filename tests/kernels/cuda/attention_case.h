// What the tests of decode and prefill attention share.
#pragma once

#include "kernels/cuda/attention.h"
#include "tests/kernels/cuda/kv_case.h"

namespace lynx::cuda {

inline std::string text(Heads heads, KvDtype dtype, Dtype out) {
  return std::to_string(heads.q) + "/" + std::to_string(heads.kv) + " heads of " +
         std::to_string(heads.size) + ", pool " + (dtype == KvDtype::kF32 ? "f32" : "bf16") + ", out " +
         name(out);
}

inline double bound(KvDtype dtype, Dtype out) {
  return dtype == KvDtype::kF32 && out == Dtype::kF32 ? 1e-4 : 1e-2;
}

inline constexpr Heads kAttentionHeads[] = {{32, 4, 128}, {28, 4, 128}, {4, 2, 64},
                                            {32, 8, 128}, {3, 3, 64},   {24, 2, 64}};

}  // namespace lynx::cuda
