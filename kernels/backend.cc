#include "kernels/backend.h"

namespace lynx {

AttentionRows attention_rows(const AttentionLayer& w, const AttentionRoom& room) {
  const std::uint32_t q_size = room.attended.cols;
  const std::uint32_t kv_size = (room.qkv.cols - q_size) / 2;
  return {.q = room.qkv.columns(0, q_size),
          .k = room.qkv.columns(q_size, kv_size),
          .v = room.qkv.columns(q_size + kv_size, kv_size),
          .norms = w.head_norms,
          .rope = w.rope};
}

void Backend::attention_block(TensorView x, const AttentionLayer& w, const AttentionRoom& room,
                              std::uint32_t layer) {
  rms_norm(room.normed, x, w.norm, w.eps);
  matmul(room.qkv, room.normed, w.qkv);
  attention(room.attended, attention_rows(w, room), layer);
  matmul_add(x, room.attended, w.o);
}

}  // namespace lynx
