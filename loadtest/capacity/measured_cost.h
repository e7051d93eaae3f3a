// What lynx-bench measured of a GPU, as terms of the step-cost model: `lynx-bench kernel --json` times the
// MoE layers alone, `lynx-bench step --json` whole decode steps. Straight lines by least squares of the
// relative error, since times of different batches differ by a factor of ten.
#pragma once

#include <optional>
#include <string>

#include "loadtest/capacity/worker_cost.h"

namespace lynx {

struct MeasuredCost {
  enum class Of { kLayers, kSteps };
  Of of = Of::kLayers;
  std::size_t rows = 0;         // that the line goes through
  double worst_error = 0;       // of the line, as a share of the time
  double bytes_per_second = 0;  // streaming reads of gigabytes
  double per_expert_s = 0;      // one expert more of one layer
  double fixed_s = 0;           // kLayers: of a MoE layer, kSteps: of a step; beside what it reads
  // A line through the experts of whole prompts, where they were measured; 0 = not.
  std::size_t prefill_rows = 0;
  double prefill_flops = 0;    // operations per second of one token more
  double prefill_layer_s = 0;  // of a layer, beside its tokens: each expert is read once for each chunk
};

// Errors name the file and what it lacks for this model: times of fewer than two numbers of experts, the
// model itself (its names are told), the read bandwidth; or that the times do not grow with what is read.
Result<MeasuredCost> read_measured_cost(const std::string& path, const ModelShape& model);
Result<MeasuredCost> parse_measured_cost(const std::string& text, const std::string& name,
                                         const ModelShape& model);

// Takes the place of bandwidth, cost of experts and fixed cost, also of a chunk of a prompt where measured.
// Of layers: what a step takes beside its MoE layers stays as it is set. Of steps: everything that a step
// reads goes at the measured slope.
void apply(const MeasuredCost& measured, const ModelShape& model, GpuShape& gpu, CostOptions& cost);

}  // namespace lynx
