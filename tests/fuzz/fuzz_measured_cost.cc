// Results of lynx-bench that a capacity plan is fitted to: any bytes give costs that are above nothing, or an
// error.
#include <cmath>
#include <cstdint>
#include <string>

#include "loadtest/capacity/measured_cost.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const lynx::ModelShape& model = lynx::known_model_shapes().front();
  const auto measured = lynx::parse_measured_cost(text, "fuzz", model);
  if (!measured) return 0;
  lynx::GpuShape gpu;
  lynx::CostOptions cost;
  lynx::apply(*measured, model, gpu, cost);
  for (const double value : {gpu.bytes_per_second, cost.read_efficiency, cost.prefill_efficiency})
    if (!(value > 0)) __builtin_trap();
  for (const double value : {cost.step_overhead_s, cost.layer_overhead_s, cost.prefill_layer_s})
    if (!(value >= 0)) __builtin_trap();
  return 0;
}
