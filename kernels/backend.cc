#include "kernels/backend.h"

namespace lynx {

AttentionRows attention_rows(const AttentionLayer& w, const AttentionScratch& scratch) {
  const std::uint32_t q_size = scratch.attended.cols;
  const std::uint32_t kv_size = (scratch.qkv.cols - q_size) / 2;
  return {.q = scratch.qkv.columns(0, q_size),
          .k = scratch.qkv.columns(q_size, kv_size),
          .v = scratch.qkv.columns(q_size + kv_size, kv_size),
          .norms = w.head_norms,
          .rope = w.rope};
}

void Backend::norm_matmul(TensorView out, TensorView normed, TensorView x, TensorView norm_weight, float eps,
                          const Matrix& w) {
  rms_norm(normed, x, norm_weight, eps);
  matmul(out, normed, w);
}

void Backend::attention_block(TensorView x, const AttentionLayer& w, const AttentionScratch& scratch,
                              std::uint32_t layer) {
  rms_norm(scratch.normed, x, w.norm, w.eps);
  matmul(scratch.qkv, scratch.normed, w.qkv);
  attention(scratch.attended, attention_rows(w, scratch), layer);
  matmul_add(x, scratch.attended, w.o);
}

}  // namespace lynx
