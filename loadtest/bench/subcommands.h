// The subcommands of lynx-bench, one file each. Each adds its flags to the app and returns what runs it.
#pragma once

#include <functional>
#include <vector>

#include "loadtest/bench/bench_report.h"

namespace CLI {
class App;
}

namespace lynx {

struct Subcommand {
  CLI::App* parser = nullptr;
  std::function<std::vector<BenchRow>()> run;  // throws std::runtime_error
};

Subcommand add_step(CLI::App& app);     // a decode step against the time to read its bytes
Subcommand add_engine(CLI::App& app);   // a device's idle time between decode steps
Subcommand add_prefill(CLI::App& app);  // a prompt against oneDNN on the same matrix products
Subcommand add_kv(CLI::App& app);       // KV pushes against ucx_perftest
Subcommand add_pace(CLI::App& app);     // how late the load generator sends
Subcommand add_router(CLI::App& app);   // streamed tokens of a router with stub workers
Subcommand add_start(CLI::App& app);    // start to ready and idle memory of each process
Subcommand add_kernel(CLI::App& app);   // MoE layers on the GPU; only in a CUDA build
Subcommand add_dense(CLI::App& app);    // the other kernels of a step on the GPU; only in a CUDA build

}  // namespace lynx
