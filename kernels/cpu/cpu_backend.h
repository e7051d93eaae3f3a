// The backend for the CPU: the default, and the reference for every other backend. Operations return when
// they are done.
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/micro/micro_kernels.h"
#include "kernels/cpu/thread_pool.h"

namespace lynx {

// Memory that the operations reuse from step to step; grows to the largest step seen.
struct CpuScratch {
  std::vector<const float*> inputs;  // row pointers
  std::vector<float*> outputs;
  std::vector<float> weights;      // router weight of each (expert, row) pair
  std::vector<float> activations;  // [pairs, I]
  struct PerWorker {
    std::vector<float> queries, scores, keys;
    std::vector<float*> outputs;
    std::vector<std::uint32_t> visible;
    std::vector<const std::byte*> tokens;
  };
  std::vector<PerWorker> workers;
};

struct CpuPlans final : RoutingPlans {
  RouterShape shape;
  std::vector<ExpertPlan> layers;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(unsigned threads, const MicroKernels& micro);

  std::string description() const override;
  bool overlaps() const override { return false; }
  Dtype matmul_input() const override { return Dtype::kF32; }
  std::uint64_t memory_held() const override { return 0; }

  Tensor allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) override;
  Tensor upload(const HostTensor& tensor, Dtype as) override;
  std::unique_ptr<Matrix> load_matrix(std::span<const HostTensor> parts) override;
  std::unique_ptr<ExpertWeights> load_experts(std::span<const ExpertTensors> experts) override;
  std::unique_ptr<KvPool> attach_kv(const PageLayout& layout, std::span<std::byte> host) override;
  std::unique_ptr<RoutingPlans> make_plans(const RouterShape& shape, std::uint32_t max_rows,
                                           std::uint32_t layers) override;
  StepShape reserve(const StepLimits& limits) override { return {limits.rows, limits.logit_rows}; }

  void import_kv(KvPool&, std::span<const BlockId>) override {}
  void run_step(const StepBatch& batch, KvPool& kv, KvReady kv_ready, const Operations& operations) override;
  void collect(StepResult& result, const RoutingPlans& plans) override;

  void embed(TensorView out, TensorView table) override;
  void gather_rows(TensorView out, TensorView x) override;
  void rms_norm(TensorView out, TensorView x, TensorView weight, float eps) override;
  void matmul(TensorView out, TensorView x, const Matrix& w) override;
  void matmul_add(TensorView out, TensorView x, const Matrix& w) override;
  void attention(TensorView out, const AttentionRows& in, std::uint32_t layer) override;
  void route(RoutingPlans& plans, std::uint32_t layer, TensorView logits) override;
  void experts_add(TensorView out, TensorView x, const ExpertWeights& w, const RoutingPlans& plans,
                   std::uint32_t layer) override;
  void sample(TensorView logits) override;

  void read_plan(const RoutingPlans& plans, std::uint32_t layer, ExpertPlan& out) override;

 private:
  void matmul_with(Epilogue epilogue, TensorView out, TensorView x, const Matrix& w);
  void norm_rope(TensorView heads, TensorView weight, float eps, const RopeTable& rope);
  void write_kv(std::uint32_t layer, TensorView k, TensorView v);
  void attend_rows(TensorView out, TensorView q, std::uint32_t layer);

  // The step under way.
  struct Step {
    StepBatch batch;
    KvPool* kv = nullptr;
    KvReady kv_ready;
    std::vector<std::uint32_t> positions;  // [T]
    std::vector<std::uint8_t> live;        // [T] ones: there is no padding here
    std::vector<float> logits;             // [R, V]
  };

  const MicroKernels& micro_;
  ThreadPool pool_;
  CpuScratch scratch_;
  Step step_;
};

}  // namespace lynx
