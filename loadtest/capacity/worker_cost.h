// What a prefill and a decode worker of one GPU (or one group of GPUs) take for their work, by the step-cost
// model: seconds = a + b x expert bytes + c x KV bytes (services/engine/step_cost.h learns the same three on
// a running worker). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "loadtest/capacity/model_shape.h"
#include "services/engine/step_cost.h"

namespace lynx {

// An H200 as measured: streaming reads of gigabytes 4.55 TB/s, 53 GB/s each way to pinned host memory.
struct GpuShape {
  double memory_bytes = 141e9;
  double bytes_per_second = 4.55e12;
  double flops = 989e12;                // bf16, dense, as published
  double link_bytes_per_second = 50e9;  // KV hand-over
};

struct CostOptions {
  std::uint32_t gpus = 1;           // of one worker, sharing its layers by tensor parallelism
  double all_reduce_s = 13e-6;      // one, of a batch's activations; two a layer when gpus > 1
  double step_overhead_s = 0.5e-3;  // of a decode step, beside reading and its MoE layers' own
  double layer_overhead_s = 0;      // of a MoE layer of a decode step, beside reading
  double read_efficiency =
      0.87;  // of bytes_per_second: the measured expert kernels take 1.1 to 1.2 of their floor
  double expert_bandwidth = 0;        // bytes per second of experts alone, one GPU; 0 = as for all reads
  double prefill_efficiency = 0.4;    // of flops
  double prefill_overhead_s = 5e-3;   // of a prompt
  std::uint32_t prefill_chunk = 512;  // tokens that a prefill worker computes at once (its chunk_tokens)
  double prefill_layer_s = 0;  // of a layer of a chunk, beside its tokens, one GPU; 0 = reads every expert
  double memory_share = 0.9;   // of the GPU's, for weights and KV
  std::uint32_t max_batch = 64;
};

// Distinct experts per layer of a decode step over its batch.
class UniqueExperts {
 public:
  enum class Policy { kExact, kLynx };
  // From the measured curve of a trained router of 64 experts, top-8: how far the union of a batch stays
  // below that of independent choices, and how far LYNX lowers it. Other shapes take the same ratios: an
  // assumption.
  UniqueExperts(const ModelShape& model, Policy policy);
  // Or from one's own measurement: batch -> experts, at least one point.
  UniqueExperts(const ModelShape& model, std::map<double, double> measured);

  double at(double batch) const;  // whole batches up to kTable cost a look-up

 private:
  static constexpr std::size_t kTable = 1024;
  double compute(double batch) const;
  void fill_table();

  double experts_, top_k_;
  std::map<double, double> ratio_;     // by batch, of the independent union; empty: `measured_`
  std::map<double, double> measured_;  // by batch
  std::vector<double> table_;
};

class WorkerCost {
 public:
  // Error: the weights do not fit, with what would.
  static Result<WorkerCost> make(const ModelShape& model, const GpuShape& gpu, const CostOptions& options,
                                 UniqueExperts experts);

  // For tests and for a step-cost learnt on a worker: coefficients as they are.
  struct Coefficients {
    double fixed_s = 0, per_expert_byte = 0, per_kv_byte = 0;  // of a decode step
    double prefill_fixed_s = 0, prefill_per_token = 0, prefill_per_token_squared = 0;
    double prefill_chunk_s = 0, prefill_chunk = 512;  // seconds of each, and its tokens
    double hand_over_per_token = 0;                   // exposed: the last layer's KV
    double expert_bytes = 0;                          // of one expert in all layers
    double kv_bytes = 0;                              // of one token in all layers
    std::uint64_t kv_tokens = 0;                      // of the pool
    std::uint32_t max_batch = 1;
  };
  WorkerCost(const Coefficients& coefficients, UniqueExperts experts)
      : c_(coefficients), experts_(std::move(experts)) {}

  double step_seconds(double batch, double context_tokens) const;  // of the whole batch together
  double prefill_seconds(double tokens) const;
  double hand_over_seconds(double tokens) const { return c_.hand_over_per_token * tokens; }
  const Coefficients& coefficients() const { return c_; }
  const UniqueExperts& experts() const { return experts_; }
  void learn(const StepCost& measured);  // takes a, b and c from a worker's own model

 private:
  Coefficients c_;
  UniqueExperts experts_;
};

}  // namespace lynx
