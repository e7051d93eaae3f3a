#include "common/transport/ucx_transport.h"
#include "services/prefill/prefill_config.h"
#include "services/worker/run_worker.h"

namespace lynx {

int run_prefill(const PrefillConfig& config) {
  WorkerPlan plan;
  plan.service = "prefill";
  plan.role = proto::Role::PREFILL;
  plan.config = config.worker;
  plan.engine.limits = {static_cast<std::uint32_t>(config.max_batch), config.chunk_tokens};
  plan.engine.report_layers = true;
  plan.step_rows = config.chunk_tokens;
  std::unique_ptr<PrefillMetrics> metrics;  // outlives the host
  plan.make_role = [&](const RoleContext& context) {
    metrics = std::make_unique<PrefillMetrics>(context.registry);
    auto transport = std::make_unique<UcxTransport>(config.worker.ucx, context.parts.clock, std::nullopt,
                                                    context.parts.cache.memory());
    auto service = std::make_unique<PrefillService>(config.settings, context.parts, *transport, *metrics);
    return WorkerRole{std::move(service), std::move(transport)};
  };
  return run_worker(std::move(plan));
}

}  // namespace lynx
