// The operations a transformer needs from a device. One Backend is one stream of work, used by one thread.
// Outputs come first; shapes are in the comments: T rows of the step (padding included), R of them whose
// logits are wanted, H hidden, D head size, Hq and Hkv heads, E experts, I their intermediate size, V
// vocabulary. Loading throws std::runtime_error; the operations check their shapes (a wrong one is a bug of
// ours) and otherwise fail only with DeviceLost or for want of memory.
//
// A step: run_step takes the rows in, calls the operations (or replays them) and may return while the device
// works; collect waits for it. In between, nothing waits for the device.
//
// Row invariance: the bits of a row of any output depend on that row's inputs alone (attention: on its own
// sequence), never on the other rows of the batch. In decode steps of up to kDecodeRows rows they do not
// depend on T or on the padding; in all other steps they do not depend on T, the chunk, either. Between the
// two kinds of step a device may round differently.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "common/kv/page_layout.h"
#include "kernels/lynx/policy.h"
#include "kernels/step.h"
#include "kernels/tensor.h"

namespace lynx {

inline constexpr std::uint32_t kDecodeRows = 64;

// The device gives no more results: whoever holds the backend ends.
struct DeviceLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// This machine has none. One that is there and cannot be used is another error.
struct NoGpu : std::runtime_error {
  using std::runtime_error::runtime_error;
};

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

// RMS norm of each query and key head before the rotary embedding.
struct HeadNorms {
  TensorView q, k;  // [1, D]
  float eps = 0;
};

// What attention takes: of each row, before norm and rotary embedding.
struct AttentionRows {
  TensorView q;     // [T, Hq*D]; what it holds afterwards is not said
  TensorView k, v;  // [T, Hkv*D] likewise
  HeadNorms norms;
  RopeTable rope;
};

// A layer up to its experts.
struct AttentionLayer {
  TensorView norm;  // [1, H]
  float eps = 0;
  const Matrix& qkv;  // [(Hq + 2 Hkv)*D, H]
  HeadNorms head_norms;
  RopeTable rope;
  const Matrix& o;  // [H, Hq*D]
};

// What lies between its operations. matmul_input() is the type of a product's input.
struct AttentionScratch {
  TensorView normed;    // [T, H] input
  TensorView qkv;       // [T, (Hq + 2 Hkv)*D]
  TensorView attended;  // [T, Hq*D] input
};
// Columns of scratch.qkv.
AttentionRows attention_rows(const AttentionLayer& w, const AttentionScratch& scratch);

// A pool of KV blocks as a device uses it. With a host pool: that itself, or one of the same layout in device
// memory, and transports write and read the host pool. Without: in device memory, where transports write and
// read, too. Lives no longer than the host pool; one backend made it.
class KvPool {
 public:
  KvPool(const PageLayout& layout, std::span<std::byte> host) : layout_(layout), host_(host) {}
  virtual ~KvPool() = default;
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  const PageLayout& layout() const { return layout_; }
  std::byte* host() const { return host_.data(); }      // null: there is none
  virtual std::byte* shared() const { return host(); }  // what transports write and read

 private:
  const PageLayout layout_;
  const std::span<std::byte> host_;
};

// Where route leaves the experts of each layer of a step.
class RoutingPlans {
 public:
  virtual ~RoutingPlans() = default;
};

// What the backend makes room for, once. A step that is larger makes it take more, and costs the memory of
// what it repeated.
struct StepLimits {
  std::uint32_t rows = 0;        // T
  std::uint32_t logit_rows = 0;  // R
  std::uint32_t context = 0;     // tokens of a sequence
  std::uint32_t q_heads = 0, kv_heads = 0, head_dim = 0;
  std::uint32_t vocab = 0;
  PolicyKind policy = PolicyKind::kOff;  // of decode steps; a device may refuse one that it does not have
};

struct StepShape {  // what the operations of a step compute: padding included
  std::uint32_t rows = 0;
  std::uint32_t logit_rows = 0;
};

class Backend {
 public:
  using Operations = std::function<void(const StepShape&)>;
  using KvReady = std::function<void(std::uint32_t layer)>;

  virtual ~Backend() = default;
  virtual std::string description() const = 0;    // "cpu avx512, 2 threads"
  virtual bool overlaps() const = 0;              // run_step returns while the device works
  virtual Dtype matmul_input() const = 0;         // of the activations that matmul and experts_add take
  virtual std::uint64_t memory_held() const = 0;  // bytes of device memory

  // Start-up.
  virtual Tensor allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) = 0;  // zeroed
  virtual Tensor upload(const HostTensor& tensor, Dtype as) = 0;                     // [rows, cols]
  virtual std::unique_ptr<Matrix> load_matrix(
      std::span<const HostTensor> parts) = 0;  // [n_i, k] stacked by rows
  virtual std::unique_ptr<ExpertWeights> load_experts(std::span<const ExpertTensors> experts) = 0;
  // host: empty for a pool in device memory alone, which only an accelerator has.
  virtual std::unique_ptr<KvPool> attach_kv(const PageLayout& layout, std::span<std::byte> host) = 0;
  virtual std::unique_ptr<RoutingPlans> make_plans(const RouterShape& shape, std::uint32_t max_rows,
                                                   std::uint32_t layers) = 0;
  // Before the first step. Returns the rows, padding included, that the operations' tensors must hold. Again
  // with more: what the operations were given before is not used again.
  virtual StepShape reserve(const StepLimits& limits) = 0;

  // Brings blocks that somebody wrote into the shared pool to the device, before the next step.
  virtual void import_kv(KvPool& kv, std::span<const BlockId> blocks) = 0;

  // Takes in the rows of `batch` and does `operations`: all of them use these rows and this pool. A decode
  // step without kv_ready may be a repetition of an earlier one of the same padded shape and policy, with
  // `operations` not called. kv_ready is called for each layer, in order, once the shared pool holds the KV
  // of the batch's rows in it: here or in collect. What batch points to stays until collect.
  virtual void run_step(const StepBatch& batch, KvPool& kv, KvReady kv_ready,
                        const Operations& operations) = 0;
  virtual void collect(StepResult& result, const RoutingPlans& plans) = 0;

  // The operations of a step.
  virtual void embed(TensorView out, TensorView table) = 0;                               // [T,H] [V,H]
  virtual void gather_rows(TensorView out, TensorView x) = 0;                             // [R,H] [T,H]
  virtual void rms_norm(TensorView out, TensorView x, TensorView weight, float eps) = 0;  // [T,H] [T,H] [1,H]
  virtual void matmul(TensorView out, TensorView x, const Matrix& w) = 0;                 // [T,N] [T,K] [N,K]
  virtual void matmul_add(TensorView out, TensorView x, const Matrix& w) = 0;             // out += x w^T
  // normed = rms_norm(x), out = normed w^T: the two operations in turn, unless a device does better.
  virtual void norm_matmul(TensorView out, TensorView normed, TensorView x, TensorView norm_weight, float eps,
                           const Matrix& w);  // [T,N] [T,K] [T,K] [1,K] [N,K]
  // Norm and rotary embedding of q and k; k and v go into the pool; then causal attention, scaled by
  // 1/sqrt(D), over the rows' own sequences.
  virtual void attention(TensorView out, const AttentionRows& in, std::uint32_t layer) = 0;  // [T,Hq*D]
  // x += o attention(qkv norm(x)): the operations above in turn, unless a device does better.
  virtual void attention_block(TensorView x, const AttentionLayer& w, const AttentionScratch& scratch,
                               std::uint32_t layer);  // [T,H]
  // By the batch's policy; padding rows neither vote nor route.
  virtual void route(RoutingPlans& plans, std::uint32_t layer, TensorView logits) = 0;  // [T,E]
  // out += sum over the plan's experts of weight * down(silu(gate x) * up x). Reads each active expert once.
  virtual void experts_add(TensorView out, TensorView x, const ExpertWeights& w, const RoutingPlans& plans,
                           std::uint32_t layer) = 0;  // [T,H] both
  virtual void sample(TensorView logits) = 0;         // [R,V]: by the batch's sampling; results in collect

  // After collect, for tests and laboratories: the plan of one layer of the last step, live rows only.
  virtual void read_plan(const RoutingPlans& plans, std::uint32_t layer, ExpertPlan& out) = 0;
};

struct BackendOptions {
  std::string device = "cpu";  // cpu, cuda, or auto: cuda where this build and machine have it
  unsigned threads = 0;        // of the CPU; 0: one per core
  bool repeat_steps = true;    // cuda: false launches every step operation by operation, and unpadded
};

struct DeviceSpace {
  std::string name;
  std::uint64_t free_bytes = 0;
};

// The device memory that `device` computes in; empty: it computes in this machine's memory. "auto" settles on
// what is there. Throws as make_backend does.
std::optional<DeviceSpace> device_space(const std::string& device);

// Throws std::runtime_error naming the device that this build lacks or cannot use; NoGpu: the machine lacks
// it.
std::unique_ptr<Backend> make_backend(const BackendOptions& options);

}  // namespace lynx
