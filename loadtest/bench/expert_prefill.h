// The MoE layer of a prompt on the GPU, for `lynx-bench kernel`: many rows meet at every expert, so what
// counts is arithmetic. The ceiling is cuBLASLt on a dense product of as many rows, in the same run.
#pragma once

#include <vector>

#include "loadtest/bench/bench_report.h"
#include "loadtest/bench/moe_layers.h"

namespace lynx {

std::vector<BenchRow> measure_expert_prefill(const cuda::MoeShape& shape);

}  // namespace lynx
