// The operations a transformer needs from a device. One Backend is one stream of work, used by one thread:
// calls enqueue, synchronize() waits. Outputs come first; shapes are in the comments: T rows of the batch, H
// hidden, D head size, Hq and Hkv heads, E experts, I their intermediate size, V vocabulary. Activations are
// f32. Loading throws std::runtime_error; the operations check their shapes (a wrong one is a bug of ours)
// and cannot fail.
//
// Row invariance: the bits of a row of any output depend on that row's inputs alone (attention: on its own
// sequence), never on the other rows of the batch or on T. Every backend keeps this.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/kv/page_layout.h"
#include "common/text/token.h"
#include "kernels/lynx/policy.h"
#include "kernels/tensor.h"

namespace lynx {

// Weights in the layout that the device computes with. Made and used by the same backend.
class Matrix {  // [n, k]: maps k inputs to n outputs
 public:
  virtual ~Matrix() = default;
  std::uint32_t n = 0, k = 0;
};

class ExpertWeights {
 public:
  virtual ~ExpertWeights() = default;
  std::uint32_t experts = 0, hidden = 0, intermediate = 0;
};

struct ExpertTensors {
  HostTensor gate, up;  // [I, H]
  HostTensor down;      // [H, I]
};

// cos and sin of position * inverse frequency: [context, D] rows of D/2 cosines, then D/2 sines.
struct RopeTable {
  TensorView values;
};

// The rows of one sequence: consecutive in the batch and in position.
struct KvSequence {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t context = 0;        // position of the first row
  std::span<const BlockId> blocks;  // covers context + rows tokens
};

struct PagedKv {  // one layer of the pool, as the batch sees it
  std::byte* pool = nullptr;
  const PageLayout* layout = nullptr;
  std::uint32_t layer = 0;
  std::span<const KvSequence> sequences;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string description() const = 0;  // "cpu avx512, 2 threads"

  // Start-up.
  virtual Tensor allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) = 0;  // zeroed
  virtual Tensor upload(const HostTensor& tensor, Dtype as) = 0;                     // [rows, cols]
  virtual std::unique_ptr<Matrix> load_matrix(
      std::span<const HostTensor> parts) = 0;  // [n_i, k] stacked by rows
  virtual std::unique_ptr<ExpertWeights> load_experts(std::span<const ExpertTensors> experts) = 0;

  // One step.
  virtual void embed(TensorView out, std::span<const TokenId> tokens,
                     TensorView table) = 0;  // [T,H] [T] [V,H]
  virtual void gather_rows(TensorView out, TensorView x,
                           std::span<const std::uint32_t> rows) = 0;                      // [R,H] [T,H] [R]
  virtual void rms_norm(TensorView out, TensorView x, TensorView weight, float eps) = 0;  // [T,H] [T,H] [1,H]
  virtual void matmul(TensorView out, TensorView x, const Matrix& w) = 0;                 // [T,N] [T,K] [N,K]
  virtual void matmul_add(TensorView out, TensorView x, const Matrix& w) = 0;             // out += x w^T
  // In place: RMS norm of each head of D, then the rotary embedding at the row's position.
  virtual void norm_rope(TensorView heads, TensorView weight, float eps,
                         const RopeTable& rope,                              // [T,heads*D] [1,D]
                         std::span<const std::uint32_t> positions) = 0;      // [T]
  virtual void write_kv(const PagedKv& kv, TensorView k, TensorView v) = 0;  // [T,Hkv*D] each
  // Causal, scaled by 1/sqrt(D), over the rows' own sequences; the batch's KV is already in the pool.
  virtual void paged_attention(TensorView out, TensorView q, const PagedKv& kv) = 0;  // [T,Hq*D] both
  virtual void route(ExpertPlan& plan, TensorView logits, const RouterShape& shape,
                     const RoutePolicy& policy,  // [T,E]
                     const RowMask& rows) = 0;
  // out += sum over the plan's experts of weight * down(silu(gate x) * up x). Reads each active expert once.
  virtual void experts_add(TensorView out, TensorView x, const ExpertWeights& w,
                           const ExpertPlan& plan) = 0;  // [T,H] both

  virtual void read_back(std::span<float> host, TensorView x) = 0;  // [T*N] [T,N]

  virtual void synchronize() = 0;
};

struct BackendOptions {
  std::string device = "cpu";
  unsigned threads = 0;  // 0: one per core
};

// Throws std::runtime_error naming the device that this build or machine lacks.
std::unique_ptr<Backend> make_backend(const BackendOptions& options);

}  // namespace lynx
