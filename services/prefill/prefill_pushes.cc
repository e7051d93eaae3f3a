// From finished layers to pushes into the decode worker's blocks, the first token with the last of them.
#include <utility>

#include "common/core/check.h"
#include "services/prefill/prefill_service.h"

namespace lynx {

void PrefillService::on_layer(const LayerDone& layer) {
  for (const ChunkPart& part : *layer.parts) push_part(layer, part);
}

void PrefillService::push_part(const LayerDone& layer, const ChunkPart& part) {
  const auto found = requests_.find(part.sequence);
  if (found == requests_.end() || found->second.ended) return;
  Request& request = found->second;
  if (!request.started) request.started = layer.step_started;
  const PageLayout& layout = parts_.cache.layout();
  ChunkPart ready = part;
  if (part.from == request.cached) ready.from = 0;  // what was cached leaves with the first chunk
  std::vector<BlockRun> runs =
      runs_completed_by(ready, layout.block_tokens, request.blocks, request.in.lease_blocks);
  if (part.last && layer.layer + 1 == layout.layers) {
    request.last_run = runs.back();  // the last chunk always completes a block: the prompt's last
    runs.pop_back();
  }
  for (const BlockRun& run : runs) push_run(part.sequence, request, layer.layer, run, std::nullopt);
}

void PrefillService::push_run(SequenceId id, Request& request, std::uint32_t layer, const BlockRun& run,
                              std::optional<SampledTokenData> first_token) {
  const auto now = parts_.clock.now();
  KvPush push;
  push.peer = request.in.decode;
  push.header.lease = request.in.lease;
  push.header.kv_layout = parts_.cache.layout().fingerprint();
  push.header.layer = layer;
  push.header.first_block = run.target;
  push.header.blocks = run.blocks;
  push.header.first_token = std::move(first_token);
  push.bytes = parts_.cache.run(layer, run.source, run.blocks);
  push.deadline = std::min(request.deadline, now + settings_.push_timeout);
  ++request.pushes_under_way;
  const std::size_t number = request.timeline.posted(now);
  transport_.push(std::move(push),
                  [this, id, number](const Result<std::uint64_t>& bytes) { pushed(id, number, bytes); });
}

void PrefillService::pushed(SequenceId id, std::size_t push, const Result<std::uint64_t>& bytes) {
  Request& request = requests_.at(id);  // it stays while pushes are under way
  --request.pushes_under_way;
  request.timeline.finished(push, parts_.clock.now());
  if (bytes) {
    request.bytes += *bytes;
    metrics_.pushed(*bytes, transport_.transport_name());
  } else if (!request.ended) {
    parts_.metrics.transfer_failed(bytes.error().code);
    fail(id, bytes.error(), wire::FaultOf::kTransfer);
    return;
  }
  settle(id);
}

void PrefillService::first_token(const SequenceToken& token, const StepDone& step) {
  const auto found = requests_.find(token.sequence);
  if (found == requests_.end() || found->second.ended) return;
  Request& request = found->second;
  const Clock::time_point started = request.started.value_or(request.arrived);
  const double queued = seconds(started - request.arrived);
  const double computed = seconds(step.finished - started);
  request.timeline.computed(step.finished);
  request.expert_shares = token.expert_shares;
  remember(request);
  metrics_.computed(queued, computed);
  capnp::MallocMessageBuilder message;
  wire::write_first_token(message, {request.wire.request, token.token, queued, computed});
  parts_.routers.send(request.wire.link, message);
  LYNX_CHECK(request.last_run.has_value(), "the last layer is reported before its step is");
  push_run(token.sequence, request, parts_.cache.layout().layers - 1, *request.last_run, token.token);
}

}  // namespace lynx
