// The experts of one layer, by plan. Two passes over the active experts: gate and up into one activation per
// (expert, row) pair, then down into the rows. The first shares out all panels by cost; the second gives each
// worker the same columns of every expert, so a row adds its experts in rising order however many workers
// there are. Either way a weight is read once.
#include <algorithm>

#include "common/core/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/packed_weights.h"

namespace lynx {
namespace {

struct Share {
  std::uint32_t first, count;
};

// Equal parts of the panels of every expert. With fewer panels than workers some have none.
Share share_of_columns(std::uint32_t panels, unsigned worker, unsigned workers) {
  const std::uint32_t first = panels * worker / workers;
  return {first, panels * (worker + 1) / workers - first};
}

// The panels of expert `a` that fall to a worker when all panels of all active experts stand in one line,
// each as long as it costs: reading it, plus its rows. A panel goes where its middle lies.
class PanelLine {
 public:
  PanelLine(const ExpertPlan& plan, std::uint32_t panels, unsigned workers)
      : plan_(plan), panels_(panels), workers_(workers) {
    total_ = panels * (plan.active.size() + plan.row_of.size());
  }

  Share share(std::size_t a, unsigned worker) const {
    const std::uint32_t first = first_panel(a, worker);
    return {first, first_panel(a, worker + 1) - first};
  }

 private:
  // The first panel of the expert whose middle lies at or after the start of the worker's part of the line.
  std::uint32_t first_panel(std::size_t a, unsigned worker) const {
    const auto before = static_cast<std::int64_t>(panels_ * (a + plan_.offsets[a]));
    const std::int64_t cost = 1 + std::int64_t{plan_.offsets[a + 1]} - plan_.offsets[a];
    const auto start = static_cast<std::int64_t>((2 * total_ * worker + workers_ - 1) / workers_);
    const std::int64_t past = start - 2 * before - cost;
    return past <= 0 ? 0
                     : static_cast<std::uint32_t>(
                           std::min<std::int64_t>((past + 2 * cost - 1) / (2 * cost), panels_));
  }

  const ExpertPlan& plan_;
  std::uint64_t panels_;
  std::uint64_t workers_;
  std::uint64_t total_;
};

}  // namespace

void CpuBackend::experts_add(TensorView out, TensorView x, const ExpertWeights& w, const RoutingPlans& plans,
                             std::uint32_t layer) {
  const ExpertPlan& plan = static_cast<const CpuPlans&>(plans).layers.at(layer);
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

  // The rows and weights of active expert a, for the panels from `first` on of those that panels_of gives.
  const auto run_expert = [&](MatmulTask task, std::size_t a, std::uint32_t first, const auto& panels_of) {
    const std::uint32_t offset = plan.offsets[a];
    task.x += offset;
    task.out += offset;
    task.scale = task.scale == nullptr ? nullptr : task.scale + offset;
    task.rows = plan.offsets[a + 1] - offset;
    task.panels = panels_of(plan.active[a], first);
    task.prefetch = a + 1 < plan.active.size() ? panels_of(plan.active[a + 1], first) : nullptr;
    micro_.matmul(task);
  };
  const PanelLine line(plan, packed.gate_up_panels(), pool_.size());
  pool_.run([&](unsigned worker) {
    for (std::size_t a = 0; a < plan.active.size(); ++a) {
      const Share part = line.share(a, worker);
      if (part.count == 0) continue;
      run_expert({.x = hidden_in,
                  .out = activation_out,
                  .panel_count = part.count,
                  .k = w.hidden,
                  .first_column = part.first * kLanes,
                  .columns = part.count * kLanes,
                  .epilogue = Epilogue::kSiluMul},
                 a, part.first,
                 [&](std::uint32_t expert, std::uint32_t panel) { return packed.gate_up(expert, panel); });
    }
  });
  pool_.run([&](unsigned worker) {
    const Share part = share_of_columns(packed.down_panels(), worker, pool_.size());
    if (part.count == 0) return;
    for (std::size_t a = 0; a < plan.active.size(); ++a) {
      run_expert({.x = activation_in,
                  .out = hidden_out,
                  .scale = scratch_.weights.data(),
                  .panel_count = part.count,
                  .k = w.intermediate,
                  .first_column = part.first * kPanel,
                  .columns = w.hidden - part.first * kPanel,
                  .epilogue = Epilogue::kAddScaled},
                 a, part.first,
                 [&](std::uint32_t expert, std::uint32_t panel) { return packed.down(expert, panel); });
    }
  });
}

}  // namespace lynx
