// The experts of one layer, by plan. Two passes over the active experts: gate and up into one activation per
// (expert, row) pair, then down into the rows. Both cut the *outputs* among the workers, so each weight is
// read once and a row adds its experts in rising order whatever the number of workers.
#include "common/core/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/packed_weights.h"

namespace lynx {
namespace {

struct Share {
  std::uint32_t first, count;
};

// Equal parts of the panels of every expert. With fewer panels than workers some have none.
Share share_of(std::uint32_t panels, unsigned worker, unsigned workers) {
  const std::uint32_t first = panels * worker / workers;
  return {first, panels * (worker + 1) / workers - first};
}

}  // namespace

void CpuBackend::experts_add(TensorView out, TensorView x, const ExpertWeights& w, const ExpertPlan& plan) {
  const auto& packed = static_cast<const PackedExperts&>(w);
  LYNX_CHECK(x.cols == w.hidden && out.cols == w.hidden && out.rows == x.rows && plan.rows == x.rows,
             "experts: shapes");
  const std::size_t pairs = plan.row_of.size();
  scratch_.inputs.resize(pairs * 2);   // rows of x, then rows of activations
  scratch_.outputs.resize(pairs * 2);  // rows of activations, then rows of out
  scratch_.weights.resize(pairs);
  scratch_.activations.resize(pairs * w.intermediate);
  const float** const hidden_in = scratch_.inputs.data();
  const float** const activation_in = hidden_in + pairs;
  float** const activation_out = scratch_.outputs.data();
  float** const hidden_out = activation_out + pairs;
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::uint32_t row = plan.row_of[i];
    hidden_in[i] = x.f32_row(row);
    activation_in[i] = activation_out[i] = scratch_.activations.data() + i * w.intermediate;
    hidden_out[i] = out.f32_row(row);
    scratch_.weights[i] = plan.weights[std::size_t{row} * plan.top_k + plan.slot_of[i]];
  }

  // One pass over the active experts for this worker's share of every expert's panels.
  const auto for_each_expert = [&](MatmulTask task, const auto& panels_of) {
    for (std::size_t a = 0; a < plan.active.size(); ++a) {
      const std::uint32_t first = plan.offsets[a];
      MatmulTask of_expert = task;
      of_expert.x += first;
      of_expert.out += first;
      of_expert.scale = task.scale == nullptr ? nullptr : task.scale + first;
      of_expert.rows = plan.offsets[a + 1] - first;
      of_expert.panels = panels_of(plan.active[a]);
      of_expert.prefetch = a + 1 < plan.active.size() ? panels_of(plan.active[a + 1]) : nullptr;
      micro_.matmul(of_expert);
    }
  };
  pool_.run([&](unsigned worker) {
    const Share part = share_of(packed.gate_up_panels(), worker, pool_.size());
    for_each_expert({.x = hidden_in,
                     .out = activation_out,
                     .panel_count = part.count,
                     .k = w.hidden,
                     .first_column = part.first * kLanes,
                     .columns = part.count * kLanes,
                     .epilogue = Epilogue::kSiluMul},
                    [&](std::uint32_t expert) { return packed.gate_up(expert, part.first); });
  });
  pool_.run([&](unsigned worker) {
    const Share part = share_of(packed.down_panels(), worker, pool_.size());
    for_each_expert({.x = activation_in,
                     .out = hidden_out,
                     .scale = scratch_.weights.data(),
                     .panel_count = part.count,
                     .k = w.intermediate,
                     .first_column = part.first * kPanel,
                     .columns = w.hidden - part.first * kPanel,
                     .epilogue = Epilogue::kAddScaled},
                    [&](std::uint32_t expert) { return packed.down(expert, part.first); });
  });
}

}  // namespace lynx
