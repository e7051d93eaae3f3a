#include "loadtest/capacity/worker_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lynx {
namespace {

// A trained router of 64 experts, top-8 (deploy/model/README.md has the like for the shipped model): the
// union of B tokens over that of B independent ones, and what LYNX activates over what is routed.
const std::map<double, double>& exact_ratio() {
  static const std::map<double, double> ratio{{1, 1},         {2, 14.7 / 15},    {4, 24.7 / 26.5},
                                              {8, 37.5 / 42}, {16, 49.7 / 56.4}, {32, 58.1 / 63.1},
                                              {64, 61.9 / 64}};
  return ratio;
}
const std::map<double, double>& lynx_ratio() {
  static const std::map<double, double> ratio{
      {1, 1}, {4, 13.6 / 24.9}, {8, 22.7 / 38.1}, {16, 34.7 / 50.7}, {32, 47.0 / 59.0}, {64, 56.1 / 62.6}};
  return ratio;
}

// Linear in log2 of the batch; flat beyond the ends.
double interpolate(const std::map<double, double>& points, double batch) {
  const auto above = points.lower_bound(batch);
  if (above == points.begin()) return above->second;
  if (above == points.end()) return points.rbegin()->second;
  const auto below = std::prev(above);
  const double place = std::log2(batch / below->first) / std::log2(above->first / below->first);
  return below->second + place * (above->second - below->second);
}

std::string gigabytes(double bytes) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f GB", bytes / 1e9);
  return out;
}

}  // namespace

UniqueExperts::UniqueExperts(const ModelShape& model, Policy policy)
    : experts_(model.experts), top_k_(model.top_k) {
  ratio_ = exact_ratio();
  if (policy == Policy::kLynx)
    for (auto& [batch, ratio] : ratio_) ratio *= interpolate(lynx_ratio(), batch);
  fill_table();
}

UniqueExperts::UniqueExperts(const ModelShape& model, std::map<double, double> measured)
    : experts_(model.experts), top_k_(model.top_k), measured_(std::move(measured)) {
  fill_table();
}

void UniqueExperts::fill_table() {
  for (std::size_t batch = 0; batch <= kTable; ++batch) table_.push_back(compute(static_cast<double>(batch)));
}

double UniqueExperts::at(double batch) const {
  const bool whole = batch >= 0 && batch <= kTable && batch == std::floor(batch);
  return whole ? table_[static_cast<std::size_t>(batch)] : compute(batch);
}

double UniqueExperts::compute(double batch) const {
  if (batch <= 0) return 0;
  const double least = std::min(top_k_, experts_);
  if (!measured_.empty()) return std::clamp(interpolate(measured_, batch), 0.0, experts_);
  const double independent = experts_ * (1 - std::pow(1 - top_k_ / experts_, batch));
  return std::clamp(independent * interpolate(ratio_, batch), least, experts_);
}

Result<WorkerCost> WorkerCost::make(const ModelShape& model, const GpuShape& gpu, const CostOptions& o,
                                    UniqueExperts experts) {
  const double memory = o.gpus * gpu.memory_bytes * o.memory_share;
  const double left = memory - model.weight_bytes();
  if (left <= 0) {
    const double needed = std::ceil(model.weight_bytes() / (gpu.memory_bytes * o.memory_share) + 0.05);
    return Error{ErrorCode::kInvalidArgument, model.name + " has " + gigabytes(model.weight_bytes()) +
                                                  " of weights, a worker " + gigabytes(memory) +
                                                  ": give it " + std::to_string(static_cast<int>(needed)) +
                                                  " GPUs (--cost.gpus)"};
  }
  const double read = o.gpus * gpu.bytes_per_second * o.read_efficiency;
  const double flops = o.gpus * gpu.flops * o.prefill_efficiency;
  const double reduces = o.gpus > 1 ? 2 * model.layers * o.all_reduce_s : 0;
  Coefficients c;
  c.fixed_s = o.step_overhead_s + model.layers * o.layer_overhead_s + reduces + model.dense_bytes() / read;
  c.per_expert_byte = 1 / (o.expert_bandwidth > 0 ? o.gpus * o.expert_bandwidth : read);
  c.per_kv_byte = 1 / read;
  c.prefill_fixed_s = o.prefill_overhead_s;
  // Hundreds of tokens go to every expert, few to each: reading them is not hidden behind computing. Dense
  // weights are, since all of the tokens go through them.
  const double layer = o.prefill_layer_s > 0 ? o.prefill_layer_s / o.gpus
                                             : model.experts * model.expert_bytes() * c.per_expert_byte;
  c.prefill_chunk_s = model.layers * layer + reduces;
  c.prefill_chunk = o.prefill_chunk;
  c.prefill_per_token = model.flops_per_token() / flops;
  c.prefill_per_token_squared =
      2.0 * model.layers * model.q_heads * model.head_dim / flops;  // causal: half of 4
  c.hand_over_per_token = model.kv_bytes_per_token() / model.layers / gpu.link_bytes_per_second;
  c.expert_bytes = model.expert_bytes() * model.layers;
  c.kv_bytes = model.kv_bytes_per_token();
  c.kv_tokens = static_cast<std::uint64_t>(left / c.kv_bytes);
  c.max_batch = o.max_batch;
  return WorkerCost(c, std::move(experts));
}

double WorkerCost::step_seconds(double batch, double context_tokens) const {
  return c_.fixed_s + c_.per_expert_byte * experts_.at(batch) * c_.expert_bytes +
         c_.per_kv_byte * context_tokens * c_.kv_bytes;
}

double WorkerCost::prefill_seconds(double tokens) const {
  return c_.prefill_fixed_s + c_.prefill_chunk_s * std::ceil(tokens / c_.prefill_chunk) +
         c_.prefill_per_token * tokens + c_.prefill_per_token_squared * tokens * tokens;
}

void WorkerCost::learn(const StepCost& measured) {
  c_.fixed_s = measured.fixed_seconds();
  c_.per_expert_byte = measured.seconds_per_expert_byte();
  c_.per_kv_byte = measured.seconds_per_kv_byte();
}

}  // namespace lynx
