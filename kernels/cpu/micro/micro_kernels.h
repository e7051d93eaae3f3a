// The inner loops of the CPU backend, compiled once per instruction set and chosen at start. Every function
// computes 16 outputs side by side in lanes and accumulates each of them in one fixed order, so a row's bits
// never depend on how many rows are computed together; and AVX2 gives the same bits as AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lynx {

inline constexpr std::uint32_t kLanes = 16;
inline constexpr std::uint32_t kPanel = 32;  // outputs of one weight panel

enum class Epilogue : std::uint8_t {
  kStore,      // out = acc
  kAdd,        // out += acc
  kAddScaled,  // out += scale[row] * acc
  kSiluMul,    // the panel's first 16 outputs are gates, the others ups: out[16] = silu(gate) * up
};

// out rows = x rows times panels of packed weights. A panel is [k][16] pairs of bf16: output i in the low
// half of pair i, output 16 + i in the high half, so one 64-byte load widens into both with a shift and a
// mask.
struct MatmulTask {
  const float* const* x = nullptr;          // [rows] -> k inputs
  float* const* out = nullptr;              // [rows] -> a row of outputs
  const float* scale = nullptr;             // [rows], kAddScaled
  const std::uint16_t* panels = nullptr;    // [panel_count][k][32]
  const std::uint16_t* prefetch = nullptr;  // what the next task reads, same size; or null
  std::uint32_t rows = 0;
  std::uint32_t panel_count = 0;
  std::uint32_t k = 0;
  std::uint32_t first_column = 0;  // where in the row the first panel's outputs go
  std::uint32_t columns = 0;       // outputs that exist from there on: the last panel may be padded
  Epilogue epilogue = Epilogue::kStore;
};

// K and V of one sequence and one KV head, by position.
struct KvHeadView {
  const std::byte* layer = nullptr;       // block 0 of the layer, K of slot 0, this head
  const std::uint32_t* blocks = nullptr;  // block table
  std::size_t block_bytes = 0;
  std::size_t token_bytes = 0;  // from one slot to the next
  std::size_t v_offset = 0;     // from a token's K to its V
  std::uint32_t block_tokens = 0;
  bool bf16 = false;
};

// Causal attention of some query rows of one sequence that share a KV head.
struct AttentionTask {
  KvHeadView kv;
  const float* q = nullptr;                // [rows, head_dim], scaled by 1/sqrt(head_dim)
  float* const* out = nullptr;             // [rows] -> head_dim
  const std::uint32_t* visible = nullptr;  // [rows] keys that the row sees: position + 1; ascending
  float* scores = nullptr;                 // scratch [rows, score_stride]
  float* keys = nullptr;                   // scratch [head_dim, kPanel]
  const std::byte** tokens = nullptr;      // scratch [visible keys]: where the K of each position lies
  std::size_t score_stride = 0;            // >= visible keys rounded up to kPanel
  std::uint32_t rows = 0;
  std::uint32_t head_dim = 0;  // a multiple of kLanes
};

inline constexpr std::uint32_t kAttentionRows = 64;  // most query rows of one task

struct MicroKernels {
  const char* name;
  void (*matmul)(const MatmulTask& task);
  void (*attention)(const AttentionTask& task);
  // out = x / rms(x) * weight over n elements, a multiple of kLanes. out may be x.
  void (*rms_norm)(float* out, const float* x, const float* weight, std::uint32_t n, float eps);
  // In place on one head: (a, b) -> (a cos - b sin, b cos + a sin), a and b its halves; angles = [n/2
  // cos][n/2 sin].
  void (*rope)(float* head, const float* angles, std::uint32_t n);
  void (*widen)(float* out, const std::uint16_t* x, std::uint32_t n);  // bf16 -> f32, any n
};

enum class Isa : std::uint8_t { kGeneric, kAvx2, kAvx512 };

// Null when this machine or build lacks the instruction set.
const MicroKernels* micro_kernels(Isa isa);
const MicroKernels& best_micro_kernels();

}  // namespace lynx
