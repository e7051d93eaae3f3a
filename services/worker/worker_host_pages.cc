// What a worker answers over HTTP: metrics, probes, the KV ledger.
#include "services/worker/worker_host.h"

namespace lynx {

TextEndpoint WorkerHost::pages() {
  TextEndpoint out;
  out.service = setup_.service;
  out.metrics = [this] {
    show_state();
    return registry_.serialize();
  };
  out.started = [this] { return started(); };
  out.ready = [this] { return ready(); };
  out.json["/debug/kv"] = [this] { return ledger_.to_json(clock_.now()); };
  return out;
}

void WorkerHost::show_state() {
  metrics_.show_slots(setup_.max_batch);
  metrics_.show_blocks(ledger_, role_.service ? role_.service->held_blocks() : 0);
  if (role_.service == nullptr) return;
  const wire::Load load = role_.service->load();
  metrics_.show_sequences(load.running, load.waiting);
  metrics_.show_transport(setup_.config.ucx.transport, role_.transport->transport_name());
}

Status WorkerHost::started() const {
  if (role_.service == nullptr) return {ErrorCode::kUnavailable, "the model is being loaded"};
  return {};
}

Status WorkerHost::ready() const {
  if (draining_) return {ErrorCode::kUnavailable, "draining"};
  if (Status status = started(); !status) return status;
  if (links_->up() > 0) return {};
  const std::string problem = links_->last_problem();
  return {ErrorCode::kUnavailable, "no router is connected" + (problem.empty() ? "" : ": " + problem)};
}

}  // namespace lynx
