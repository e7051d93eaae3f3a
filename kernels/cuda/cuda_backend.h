// The backend for one NVIDIA GPU. The operations launch kernels on one stream. A decode step is padded to the
// next of a few sizes and captured into a graph the first time that its shape and policy come; from then on
// it is one launch. Rows, block tables and sampling records lie at fixed addresses (StepStage), and the
// number of live rows is read on the device, so a graph serves every step of its size.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_kv.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_plan.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/long_wait.h"
#include "kernels/cuda/step_stage.h"
#include "kernels/lynx/derived_policy.h"

namespace lynx::cuda {

// Rows that a decode step of `rows` is padded to.
std::uint32_t decode_bucket(std::uint32_t rows);

struct CudaPlans final : RoutingPlans {
  CudaPlans(const RouterShape& router, std::uint32_t max_rows, std::uint32_t layer_count, DeviceHeap& heap);
  DevicePlan layer(std::uint32_t index, std::uint32_t rows) const;

  RouterShape shape;
  std::uint32_t layers;
  std::size_t layer_bytes;
  DeviceMemory memory;          // [layers][layer_bytes]
  DeviceMemory stats;           // [layers] DevicePlanStats
  PinnedMemory host_stats;      // [layers]
  DeviceMemory row_stats;       // [layers, kDecodeRows] DevicePlanRow
  PinnedMemory host_row_stats;  // the same, of steps that ask for it
};

class CudaBackend final : public Backend {
 public:
  // repeat_steps: see BackendOptions. Throws std::runtime_error: see open_gpu.
  explicit CudaBackend(bool repeat_steps);
  ~CudaBackend() override;

  std::string description() const override;
  bool overlaps() const override { return true; }
  Dtype matmul_input() const override { return Dtype::kBf16; }
  std::uint64_t memory_held() const override;

  Tensor allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) override;
  Tensor upload(const HostTensor& tensor, Dtype as) override;
  std::unique_ptr<Matrix> load_matrix(std::span<const HostTensor> parts) override;
  std::unique_ptr<ExpertWeights> load_experts(std::span<const ExpertTensors> experts) override;
  std::unique_ptr<KvPool> attach_kv(const PageLayout& layout, std::span<std::byte> host) override;
  std::unique_ptr<RoutingPlans> make_plans(const RouterShape& shape, std::uint32_t max_rows,
                                           std::uint32_t layers) override;
  StepShape reserve(const StepLimits& limits) override;

  void import_kv(KvPool& kv, std::span<const BlockId> blocks) override;
  void run_step(const StepBatch& batch, KvPool& kv, KvReady kv_ready, const Operations& operations) override;
  void collect(StepResult& result, const RoutingPlans& plans) override;

  void embed(TensorView out, TensorView table) override;
  void gather_rows(TensorView out, TensorView x) override;
  void rms_norm(TensorView out, TensorView x, TensorView weight, float eps) override;
  void matmul(TensorView out, TensorView x, const Matrix& w) override;
  void matmul_add(TensorView out, TensorView x, const Matrix& w) override;
  void norm_matmul(TensorView out, TensorView normed, TensorView x, TensorView norm_weight, float eps,
                   const Matrix& w) override;
  void attention(TensorView out, const AttentionRows& in, std::uint32_t layer) override;
  void attention_block(TensorView x, const AttentionLayer& w, const AttentionScratch& scratch,
                       std::uint32_t layer) override;
  void route(RoutingPlans& plans, std::uint32_t layer, TensorView logits) override;
  void experts_add(TensorView out, TensorView x, const ExpertWeights& w, const RoutingPlans& plans,
                   std::uint32_t layer) override;
  void sample(TensorView logits) override;

  void read_plan(const RoutingPlans& plans, std::uint32_t layer, ExpertPlan& out) override;

 private:
  // What a captured step depends on besides the addresses that reserve fixes.
  struct GraphKey {
    std::uint32_t rows, logit_rows;
    std::uint64_t kv;  // serial of the pool
    RoutePolicy policy;
    bool operator==(const GraphKey&) const = default;
  };

  // The step under way.
  struct Step {
    const CudaKvPool* kv = nullptr;
    StepShape shape;
    bool decode = false;
    bool row_routing = false;
    RoutePolicy policy;
    KvReady kv_ready;
    std::uint32_t rows = 0, logit_rows = 0;  // live
    std::vector<bool> on_device;             // [logit_rows] sampled there
    std::vector<bool> fetched;               // [logit_rows] their logits are read back
    // While operations are enqueued: the rows that they are on, and whether these are the logit rows.
    const std::uint32_t* live = nullptr;
    bool on_logit_rows = false;
  };

  void repeat(const GraphKey& key, const Operations& operations);
  DecodeAttentionArgs decode_attention_args(TensorView out, const AttentionRows& in, std::uint32_t layer);
  void multiply(TensorView out, TensorView x, const Matrix& w, bool add);
  void abandon_step() noexcept;
  LongWaitNote* long_wait() const { return long_wait_.at<LongWaitNote>(0); }
  void enqueue_results(const CudaPlans& plans);

  const GpuInfo gpu_;
  const bool repeat_steps_;
  DeviceHeap heap_;
  Stream stream_;
  KvTraffic traffic_;
  WideGemm wide_;
  StepStage stage_;
  StepLimits limits_;
  Step step_;
  std::vector<std::pair<GraphKey, GraphExec>> graphs_;  // a handful

  DeviceMemory attention_workspace_, block_meetings_, sample_workspace_, experts_workspace_;
  ExpertShape expert_shape_;  // of what load_experts loaded last: equal in all layers
  TensorView logits_;         // that the steps of these addresses sample from
  DeviceMemory samples_;      // [R] SampledRow
  PinnedMemory host_samples_;
  PinnedMemory host_logits_;  // [R, V]
  PinnedMemory long_wait_;    // LongWaitNote
};

}  // namespace lynx::cuda
