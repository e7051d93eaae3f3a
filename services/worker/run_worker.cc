#include "services/worker/run_worker.h"

#include <utility>

#include "common/core/log.h"
#include "services/engine/model_config.h"
#include "services/engine/moe_transformer.h"
#include "services/worker/memory_budget.h"

namespace lynx {
namespace {

bool fits(const MemoryBudget& budget) {
  log::info("memory: {}", budget.describe());
  const auto available = available_memory();
  if (!available || budget.total() <= *available) return true;
  log::error("this worker needs {} MiB of memory and {} MiB are available: lower kv.memory_mb or kv.blocks",
             budget.total() >> 20, *available >> 20);
  return false;
}

EngineLoop::LoadModel loader(const WorkerPlan& plan) {
  const WorkerConfig& config = plan.config;
  ModelOptions options;
  options.max_rows = plan.step_rows;
  options.max_logit_rows = plan.engine.limits.max_batch;
  options.backend.threads = config.threads;
  options.load_format = config.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kSafetensors;
  return [folder = config.model_path, options] { return load_model(folder, options); };
}

}  // namespace

int run_worker(WorkerPlan plan) {
  const ModelConfig model = read_model_config(plan.config.model_path);
  WorkerSetup setup;
  setup.layout = plan.config.layout(model);
  if (!fits(memory_budget(model, setup.layout, plan.step_rows, plan.engine.limits.max_batch)))
    return kExitNoMemory;
  setup.load = loader(plan);
  setup.service = std::move(plan.service);
  setup.role = plan.role;
  setup.config = std::move(plan.config);
  setup.engine = plan.engine;
  setup.max_batch = plan.engine.limits.max_batch;
  setup.make_role = std::move(plan.make_role);
  EventLoop loop;
  WorkerHost host(loop, std::move(setup));
  loop.on_terminate([&] { host.drain(); });
  const int exit_code = host.run();
  log::info("stopped");
  return exit_code;
}

}  // namespace lynx
