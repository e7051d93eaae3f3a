// What a worker and its routers tell each other beside requests: registration and heartbeats.
#include "services/worker/worker_host.h"

namespace lynx {

RouterLinks::Callbacks WorkerHost::link_callbacks() {
  RouterLinks::Callbacks out;
  out.fill_register = [this](capnp::MallocMessageBuilder& message) { fill_register(message); };
  out.on_frame = [this](LinkId link, proto::Frame::Reader frame) {
    role_.service->on_frame(link, frame);
    pump_->kick();
  };
  out.on_up = [this](LinkId) { beat(); };
  out.on_down = [this](LinkId link, const Error&) { role_.service->on_link_down(link); };
  return out;
}

void WorkerHost::fill_register(capnp::MallocMessageBuilder& message) const {
  wire::Hardware hardware;
  hardware.worker = name_;
  hardware.incarnation = incarnation_;
  hardware.role = setup_.role;
  hardware.model_fingerprint = model_fingerprint_;
  hardware.layout_fingerprint = setup_.layout.fingerprint();
  hardware.model = setup_.config.served_model();
  hardware.context_tokens = model_.context;
  hardware.block_tokens = setup_.layout.block_tokens;
  hardware.total_blocks = setup_.layout.blocks;
  hardware.max_batch = setup_.max_batch;
  if (setup_.role == proto::Role::DECODE) hardware.kv_address = role_.transport->address();
  hardware.metrics_address = setup_.config.http_host + ":" + std::to_string(http_.port());
  wire::write_register(message, hardware);
}

bool WorkerHost::send(LinkId link, capnp::MessageBuilder& message) {
  return links_ && links_->send(link, message);
}

void WorkerHost::beat() {
  wire::Load load = role_.service->load();
  load.transport = role_.transport->transport_name();
  load.experts = expert_meter_.since_last();
  capnp::MallocMessageBuilder message;
  wire::write_heartbeat(message, load);
  links_->broadcast(message);
}

}  // namespace lynx
