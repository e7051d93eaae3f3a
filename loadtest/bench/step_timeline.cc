#include "loadtest/bench/step_timeline.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "kernels/bench/device_graph.h"
#include "kernels/cuda/step_timeline.h"

namespace lynx {
namespace {

using cuda::StepMark;

// Of a step: embed first; then those of the layers, as many in each; then fewer than there are layers:
// gather, norm, head and sampling.
constexpr std::size_t kBefore = 1;

struct Kernel {
  StepMark mark{};
  std::vector<double> us;      // until the next kernel may begin
  std::vector<double> waited;  // its first block, for the kernels before it
};

std::vector<StepMark> marks_of(const std::function<void()>& step, StepMark* device) {
  const std::size_t bytes = cuda::kStepMarks * sizeof(StepMark);
  cuda::require(cudaMemset(device, 0, bytes), "cudaMemset");
  cuda::require(cudaDeviceSynchronize(), "cudaMemset");
  step();
  std::vector<StepMark> marks(cuda::kStepMarks);
  cuda::require(cudaMemcpy(marks.data(), device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::erase_if(marks, [](const StepMark& mark) { return mark.ready == 0; });
  std::sort(marks.begin(), marks.end(),
            [](const StepMark& a, const StepMark& b) { return a.ready < b.ready; });
  return marks;
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void print(const char* part, std::vector<Kernel>& kernels) {
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    Kernel& k = kernels[i];
    if (k.us.empty()) continue;  // a step's last: nothing follows it
    std::printf("  %-6s %zu  %4u blocks of %3u  %8.2f us, its first block there %6.2f us before\n", part, i,
                k.mark.blocks, k.mark.threads, median(k.us), median(k.waited));
  }
}

}  // namespace

bool has_step_timeline() { return !cuda::step_mark_setters().empty(); }

void print_step_timeline(const std::function<void()>& step, std::uint32_t steps, std::uint32_t rows,
                         std::uint32_t layers) {
  const auto device = cuda::allocate_block<StepMark>(cuda::kStepMarks);
  for (const auto set : cuda::step_mark_setters()) set(device.get());
  std::vector<Kernel> before, layer, after;
  std::size_t usual = 0;  // marks of the fullest step: others have two in one tick
  for (std::uint32_t i = 0; i < steps; ++i) {
    const std::vector<StepMark> marks = marks_of(step, device.get());
    if (marks.size() <= kBefore + layers || marks.size() < usual) continue;
    const std::size_t of_layer = (marks.size() - kBefore) / layers;
    if (marks.size() > usual) {
      usual = marks.size();
      before.assign(kBefore, {});
      layer.assign(of_layer, {});
      after.assign(usual - kBefore - of_layer * layers, {});
    }
    for (std::size_t m = 0; m + 1 < marks.size(); ++m) {
      Kernel& kernel = m < kBefore                       ? before[m]
                       : m - kBefore < of_layer * layers ? layer[(m - kBefore) % of_layer]
                                                         : after[m - kBefore - of_layer * layers];
      kernel.mark = marks[m];
      kernel.us.push_back(static_cast<double>(marks[m + 1].ready - marks[m].ready) * 1e-3);
      kernel.waited.push_back(static_cast<double>(marks[m].ready - marks[m].waits) * 1e-3);
    }
  }
  for (const auto set : cuda::step_mark_setters()) set(nullptr);
  std::printf("B = %u, medians over layers and steps:\n", rows);
  print("before", before);
  print("layer", layer);
  print("after", after);
}

}  // namespace lynx
