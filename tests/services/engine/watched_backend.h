// A backend that does what another does, and keeps what it was asked to make room for.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace lynx {

class WatchedBackend final : public Backend {
 public:
  WatchedBackend(std::unique_ptr<Backend> of, std::vector<StepLimits>& reserved)
      : of_(std::move(of)), reserved_(reserved) {}

  StepShape reserve(const StepLimits& limits) override {
    reserved_.push_back(limits);
    return of_->reserve(limits);
  }

  std::string description() const override { return of_->description(); }
  bool overlaps() const override { return of_->overlaps(); }
  Dtype matmul_input() const override { return of_->matmul_input(); }
  std::uint64_t memory_held() const override { return of_->memory_held(); }
  Tensor allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) override {
    return of_->allocate(dtype, rows, cols);
  }
  Tensor upload(const HostTensor& tensor, Dtype as) override { return of_->upload(tensor, as); }
  std::unique_ptr<Matrix> load_matrix(std::span<const HostTensor> parts) override {
    return of_->load_matrix(parts);
  }
  std::unique_ptr<ExpertWeights> load_experts(std::span<const ExpertTensors> experts) override {
    return of_->load_experts(experts);
  }
  std::unique_ptr<KvPool> attach_kv(const PageLayout& layout, std::span<std::byte> host) override {
    return of_->attach_kv(layout, host);
  }
  std::unique_ptr<RoutingPlans> make_plans(const RouterShape& shape, std::uint32_t max_rows,
                                           std::uint32_t layers) override {
    return of_->make_plans(shape, max_rows, layers);
  }
  void import_kv(KvPool& kv, std::span<const BlockId> blocks) override { of_->import_kv(kv, blocks); }
  void run_step(const StepBatch& batch, KvPool& kv, KvReady ready, const Operations& operations) override {
    of_->run_step(batch, kv, std::move(ready), operations);
  }
  void collect(StepResult& result, const RoutingPlans& plans) override { of_->collect(result, plans); }
  void embed(TensorView out, TensorView table) override { of_->embed(out, table); }
  void gather_rows(TensorView out, TensorView x) override { of_->gather_rows(out, x); }
  void rms_norm(TensorView out, TensorView x, TensorView weight, float eps) override {
    of_->rms_norm(out, x, weight, eps);
  }
  void matmul(TensorView out, TensorView x, const Matrix& w) override { of_->matmul(out, x, w); }
  void matmul_add(TensorView out, TensorView x, const Matrix& w) override { of_->matmul_add(out, x, w); }
  void norm_matmul(TensorView out, TensorView normed, TensorView x, TensorView norm_weight, float eps,
                   const Matrix& w) override {
    of_->norm_matmul(out, normed, x, norm_weight, eps, w);
  }
  void attention(TensorView out, const AttentionRows& in, std::uint32_t layer) override {
    of_->attention(out, in, layer);
  }
  void attention_block(TensorView x, const AttentionLayer& w, const AttentionScratch& scratch,
                       std::uint32_t layer) override {
    of_->attention_block(x, w, scratch, layer);
  }
  void route(RoutingPlans& plans, std::uint32_t layer, TensorView logits) override {
    of_->route(plans, layer, logits);
  }
  void experts_add(TensorView out, TensorView x, const ExpertWeights& w, const RoutingPlans& plans,
                   std::uint32_t layer) override {
    of_->experts_add(out, x, w, plans, layer);
  }
  void sample(TensorView logits) override { of_->sample(logits); }
  void read_plan(const RoutingPlans& plans, std::uint32_t layer, ExpertPlan& out) override {
    of_->read_plan(plans, layer, out);
  }

 private:
  std::unique_ptr<Backend> of_;
  std::vector<StepLimits>& reserved_;
};

}  // namespace lynx
