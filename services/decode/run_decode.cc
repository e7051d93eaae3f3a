#include "common/core/log.h"
#include "common/transport/ucx_transport.h"
#include "services/decode/decode_config.h"
#include "services/worker/run_worker.h"

namespace lynx {

int run_decode(const DecodeConfig& config) {
  WorkerPlan plan;
  plan.service = "decode";
  plan.role = proto::Role::DECODE;
  plan.config = config.worker;
  plan.engine.limits.max_batch = static_cast<std::uint32_t>(config.max_batch);
  plan.engine.policy = config.route_policy();
  plan.engine.drift = config.drift();
  plan.step_rows = static_cast<std::uint32_t>(config.max_batch);
  plan.make_role = [&config](const RoleContext& context) {
    auto service = std::make_unique<DecodeService>(config.settings(), context.parts, context.registry);
    const KvReceiver receiver{service.get(), context.parts.cache.layout(), context.incarnation};
    auto transport = std::make_unique<UcxTransport>(config.worker.ucx, context.parts.clock, receiver,
                                                    context.parts.cache.memory());
    return WorkerRole{std::move(service), std::move(transport)};
  };
  log::info("expert routing: {}", to_string(plan.engine.policy.kind));
  return run_worker(std::move(plan));
}

}  // namespace lynx
