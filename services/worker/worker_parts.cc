#include "services/worker/worker_parts.h"

namespace lynx {

void WorkerParts::tell_ended(const WireId& wire, const Error& why, wire::FaultOf of) const {
  metrics.ended(why.code);
  capnp::MallocMessageBuilder message;
  wire::write_ended(message, wire.request, why, of);
  routers.send(wire.link, message);
}

}  // namespace lynx
