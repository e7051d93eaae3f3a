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

class CpuBackend final : public Backend {
 public:
  CpuBackend(unsigned threads, const MicroKernels& micro);

  std::string description() const override;

  Tensor allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) override;
  Tensor upload(const HostTensor& tensor, Dtype as) override;
  std::unique_ptr<Matrix> load_matrix(std::span<const HostTensor> parts) override;
  std::unique_ptr<ExpertWeights> load_experts(std::span<const ExpertTensors> experts) override;

  void embed(TensorView out, std::span<const TokenId> tokens, TensorView table) override;
  void gather_rows(TensorView out, TensorView x, std::span<const std::uint32_t> rows) override;
  void rms_norm(TensorView out, TensorView x, TensorView weight, float eps) override;
  void matmul(TensorView out, TensorView x, const Matrix& w) override;
  void matmul_add(TensorView out, TensorView x, const Matrix& w) override;
  void norm_rope(TensorView heads, TensorView weight, float eps, const RopeTable& rope,
                 std::span<const std::uint32_t> positions) override;
  void write_kv(const PagedKv& kv, TensorView k, TensorView v) override;
  void paged_attention(TensorView out, TensorView q, const PagedKv& kv) override;
  void route(ExpertPlan& plan, TensorView logits, const RouterShape& shape, const RoutePolicy& policy,
             const RowMask& rows) override;
  void experts_add(TensorView out, TensorView x, const ExpertWeights& w, const ExpertPlan& plan) override;

  void read_back(std::span<float> host, TensorView x) override;

  void synchronize() override {}

 private:
  void matmul_with(Epilogue epilogue, TensorView out, TensorView x, const Matrix& w);

  const MicroKernels& micro_;
  ThreadPool pool_;
  CpuScratch scratch_;
};

}  // namespace lynx
