#include "services/worker/run_worker.h"

#include <utility>

#include "common/config/model_folder.h"
#include "common/core/log.h"
#include "common/transport/ucx_devices.h"
#include "services/engine/model_config.h"
#include "services/engine/moe_transformer.h"
#include "services/worker/kv_path.h"
#include "services/worker/memory_budget.h"

namespace lynx {
namespace {

bool fits(const MemoryBudget& budget, const std::string& what, std::optional<std::uint64_t> available) {
  log::info("{}: {}", what, budget.describe());
  if (!available || budget.total() <= *available) return true;
  log::error("this worker needs {} MiB of {} and {} MiB are available: lower kv.memory_mb or kv.blocks",
             budget.total() >> 20, what, *available >> 20);
  return false;
}

bool fits(const WorkerPlan& plan, const ModelConfig& model, const PageLayout& layout,
          const std::optional<DeviceSpace>& device, KvPath path) {
  const std::uint32_t logit_rows = plan.engine.limits.max_batch;
  if (!device)
    return fits(memory_budget(model, layout, plan.step_rows, logit_rows), "memory", available_memory());
  return fits(gpu_memory_budget(model, layout, plan.step_rows, logit_rows), "memory of " + device->name,
              device->free_bytes) &&
         fits(memory_budget_beside_gpu(model, layout, logit_rows, path), "memory", available_memory());
}

KvPath find_kv_path(const WorkerConfig& config, bool on_gpu) {
  KvPathFacts facts{.gpu = on_gpu, .checksum = config.ucx.checksum};
  const bool asked = on_gpu && config.kv_path == "device";
  if (asked) facts.ucx_moves_device_memory = ucx_moves_device_memory();
  const KvPath path = choose_kv_path(config.kv_path, facts);
  if (on_gpu)
    log::info("KV path: {}; UCX {} {} device memory", describe(path), ucx_version_name(),
              asked ? "moves" : "need not move");
  return path;
}

EngineLoop::LoadModel loader(const WorkerPlan& plan, std::uint32_t max_context, bool on_gpu) {
  const WorkerConfig& config = plan.config;
  ModelOptions options;
  options.backend.device = on_gpu ? "cuda" : "cpu";
  options.max_rows = plan.step_rows;
  options.max_logit_rows = plan.engine.limits.max_batch;
  options.max_context = max_context;
  options.policy = plan.engine.policy.kind;
  options.backend.threads = config.threads;
  options.load_format = config.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kSafetensors;
  return [folder = config.model_path, options] { return load_model(folder, options); };
}

// The KV pool may hold less than the model could attend to: then that is the longest sequence.
void tell_context(const ModelConfig& model, const PageLayout& layout) {
  const std::uint32_t tokens = longest_context(model, layout);
  if (tokens == model.context) return;
  log::warn(
      "the KV pool holds {} tokens: no sequence can be longer, though the model's context is {} "
      "(kv.memory_mb, kv.blocks)",
      tokens, model.context);
}

}  // namespace

int run_worker(WorkerPlan plan) {
  check_model_folder(plan.config.model_path);
  const ModelConfig model = read_model_config(plan.config.model_path);
  WorkerSetup setup;
  setup.layout = plan.config.layout(model);
  tell_context(model, setup.layout);
  const std::optional<DeviceSpace> device = device_space(plan.config.backend);
  if (device && plan.role == proto::Role::DECODE && plan.engine.limits.max_batch > kDecodeRows)
    throw ConfigError("max_batch: at most " + std::to_string(kDecodeRows) + " on a GPU");
  setup.kv_path = find_kv_path(plan.config, device.has_value());
  if (!fits(plan, model, setup.layout, device, setup.kv_path)) return kExitNoMemory;
  setup.load = loader(plan, longest_context(model, setup.layout), device.has_value());
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
