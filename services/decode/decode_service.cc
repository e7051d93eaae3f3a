#include "services/decode/decode_service.h"

#include <algorithm>
#include <utility>

#include "common/core/check.h"
#include "common/core/log.h"

namespace lynx {

DecodeService::DecodeService(const DecodeSettings& settings, WorkerParts parts, MetricsRegistry& registry)
    : settings_(settings), parts_(std::move(parts)), cost_metrics_(registry) {}

void DecodeService::on_frame(LinkId link, proto::Frame::Reader frame) {
  if (frame.isReserve()) {
    reserve(link, frame.getReserve());
  } else if (frame.isCancel()) {
    const auto found = by_wire_.find({link, frame.getCancel().getRequest()});
    if (found != by_wire_.end()) cancel(requests_.find(found->second));
  } else if (!frame.isPing()) {
    log::warn("a router sent a frame that is not for a decode worker (kind {})",
              static_cast<int>(frame.which()));
  }
}

void DecodeService::on_link_down(LinkId link) {
  std::vector<SequenceId> lost;
  for (auto it = by_wire_.lower_bound({link, 0}); it != by_wire_.end() && it->first.link == link; ++it)
    lost.push_back(it->second);
  for (const SequenceId id : lost) cancel(requests_.find(id));
}

void DecodeService::reserve(LinkId link, proto::Reserve::Reader frame) {
  const WireId wire{link, frame.getRequest()};
  Result<wire::Request> in = wire::read_reserve(frame);
  if (!in) return parts_.tell_ended(wire, in.error());
  if (by_wire_.contains(wire))
    return parts_.tell_ended(wire, {ErrorCode::kInternal, "the request id is in use"});
  if (const Status status = check_request(in->tokens, in->generated, in->sampling, parts_.model); !status)
    return parts_.tell_ended(wire, status.error());
  if (draining_) return busy(wire, "draining", 0);
  if (requests_.size() >= settings_.max_sequences) return busy(wire, "batch_full", 0);
  lease(wire, std::move(*in));
}

void DecodeService::lease(const WireId& wire, wire::Request&& in) {
  const PageLayout& layout = parts_.cache.layout();
  const auto length = static_cast<std::uint32_t>(in.tokens.size());
  const std::uint32_t prompt_tokens = length - in.generated;
  const std::uint32_t prompt_blocks = layout.blocks_for(length);
  const std::uint32_t total_blocks =
      layout.blocks_for(max_cached_tokens(length, prompt_tokens, in.sampling, parts_.model.context));
  const auto now = parts_.clock.now();
  const auto deadline = now + in.deadline;
  const SequenceId id = next_id_++;
  const Result<LeaseTicket> ticket =
      parts_.ledger.lease(id, prompt_blocks, total_blocks, std::min(deadline, now + settings_.lease_timeout));
  if (!ticket) {
    if (ticket.error().code != ErrorCode::kBusy) return parts_.tell_ended(wire, ticket.error());
    return busy(wire, "no_blocks", total_blocks - parts_.ledger.free_blocks());
  }
  const std::optional<LeaseView> view = parts_.ledger.find(ticket->id);
  LYNX_CHECK(view.has_value(), "a lease just granted is there");
  Request request;
  request.wire = wire;
  request.lease = ticket->id;
  request.blocks = total_blocks;
  request.remaining_tokens = in.sampling.max_tokens - in.generated;
  request.landing = Landing(layout.layers, prompt_blocks);
  request.sequence.id = id;
  request.sequence.phase = Phase::kDecode;
  request.sequence.tokens = std::move(in.tokens);
  request.sequence.prompt_tokens = prompt_tokens;
  request.sequence.cached = length;
  request.sequence.blocks.assign(view->blocks.begin(), view->blocks.end());
  request.sequence.sampling = std::move(in.sampling);
  request.sequence.deadline = deadline;
  by_wire_.emplace(wire, id);
  requests_.emplace(id, std::move(request));

  capnp::MallocMessageBuilder message;
  wire::write_reserved(message, wire.request, *view, now);
  parts_.routers.send(wire.link, message);
}

Result<std::span<std::byte>> DecodeService::write_begin(const KvPushHeader& header) {
  const Status status =
      parts_.ledger.begin_write(header.lease, header.first_block, header.blocks, parts_.clock.now());
  if (!status) return status.error();
  return parts_.cache.run(header.layer, header.first_block, header.blocks);
}

void DecodeService::write_done(const KvPushHeader& header, Result<std::uint64_t> bytes) {
  parts_.ledger.end_write(header.lease.id);
  if (!bytes) parts_.metrics.transfer_failed(bytes.error().code);
  const std::optional<LeaseView> view = parts_.ledger.find(header.lease.id);
  if (!view) return;  // revoked while the write was under way
  const auto found = requests_.find(view->request);
  if (found == requests_.end() || found->second.state != State::kReceiving) return;
  // A hole in the prompt's KV that nobody will fill.
  if (!bytes) return fail(found, bytes.error(), wire::FaultOf::kTransfer);

  Request& request = found->second;
  const auto prompt = view->blocks.first(view->prompt_blocks);
  const auto first = static_cast<std::uint32_t>(std::find(prompt.begin(), prompt.end(), header.first_block) -
                                                prompt.begin());
  for (std::uint32_t i = 0; i < header.blocks; ++i) request.landing.mark(header.layer, first + i);
  if (header.first_token) request.first = header.first_token;
  if (request.landing.complete() && request.first) join(found, *request.first);
}

void DecodeService::join(Requests::iterator self, const SampledTokenData& first) {
  Request& request = self->second;
  if (Status status = check_first(request.sequence, first); !status) return fail(self, status.error());
  // Refused while a write that repeats a block is under way: its end comes here again.
  if (!parts_.ledger.activate(request.lease)) return;
  request.sequence.tokens.push_back(first.token);
  --request.remaining_tokens;
  // Prefill says whether its token was the last; this worker generates nothing after one, whatever prefill
  // says.
  const bool finished = first.finish != static_cast<std::uint8_t>(FinishReason::kNone) ||
                        finish_after(request.sequence, parts_.model) != FinishReason::kNone;
  if (finished) return forget(self);
  request.state = State::kRunning;
  if (!parts_.submit(AdmitSequence{std::move(request.sequence)})) {
    request.state = State::kReceiving;  // the engine never got it
    fail(self, {ErrorCode::kUnavailable, "the engine takes no more sequences"});
  }
}

Status DecodeService::check_first(const Sequence& sequence, const SampledTokenData& first) const {
  if (first.token >= parts_.model.vocab)
    return {ErrorCode::kCorrupt, "the first token is outside the vocabulary"};
  if (first.index != sequence.generated())
    return {ErrorCode::kCorrupt, "the first token has index " + std::to_string(first.index) + ", expected " +
                                     std::to_string(sequence.generated())};
  return {};
}

void DecodeService::on_step(StepDone step) {
  if (step.rows > 0) {  // not one that failed: it did no work that explains its time
    const double measured = seconds(step.finished - step.started);
    if (cost_.samples() > 0) cost_metrics_.compare(cost_.predict(step.work), measured);
    cost_.observe(step.work, measured);
    cost_metrics_.show(cost_);
    last_work_ = step.work;
  }
  send_tokens(step);
  for (const SequenceEnded& end : step.ended) engine_let_go(end);
}

void DecodeService::send_tokens(const StepDone& step) {
  std::map<LinkId, std::vector<wire::TokenItem>> by_link;
  for (const SequenceToken& token : step.tokens) {
    const auto found = requests_.find(token.sequence);
    if (found == requests_.end() || found->second.state != State::kRunning) continue;
    --found->second.remaining_tokens;
    by_link[found->second.wire.link].push_back(
        {found->second.wire.request, &token.token, token.receipt ? &*token.receipt : nullptr});
  }
  for (const auto& [link, items] : by_link) {
    capnp::MallocMessageBuilder message;
    wire::write_tokens(message, step.step, items);
    parts_.routers.send(link, message);
  }
}

void DecodeService::engine_let_go(const SequenceEnded& end) {
  const auto found = requests_.find(end.sequence);
  if (found == requests_.end()) return;
  if (!end.why && found->second.state == State::kRunning)
    parts_.tell_ended(found->second.wire, end.why.error());
  forget(found);
}

void DecodeService::on_tick() {
  const std::vector<std::uint64_t> expired = parts_.ledger.expire(parts_.clock.now());
  if (expired.empty()) return;
  parts_.metrics.leases_expired(expired.size());
  for (const SequenceId id : expired)
    fail(requests_.find(id),
         {ErrorCode::kDeadlineExceeded, "the prompt's KV did not arrive by the lease's deadline"},
         wire::FaultOf::kTransfer);
}

void DecodeService::abandon(const Error& why) {
  std::vector<SequenceId> all;
  for (const auto& [id, request] : requests_) all.push_back(id);
  for (const SequenceId id : all) fail(requests_.find(id), why);
}

wire::Load DecodeService::load() const {
  wire::Load load;
  load.free_blocks = parts_.ledger.free_blocks();
  for (const auto& [id, request] : requests_)
    ++(request.state == State::kReceiving ? load.waiting : load.running);
  load.draining = draining_;
  load.step_seconds = static_cast<float>(step_seconds());
  return load;
}

std::uint32_t DecodeService::held_blocks() const {
  std::uint32_t held = 0;
  for (const auto& [id, request] : requests_) held += request.blocks;
  return held;
}

void DecodeService::fail(Requests::iterator request, const Error& why, wire::FaultOf of) {
  if (request == requests_.end()) return;
  if (request->second.state != State::kLeaving) parts_.tell_ended(request->second.wire, why, of);
  cancel(request);
}

void DecodeService::cancel(Requests::iterator request) {
  if (request == requests_.end()) return;
  switch (request->second.state) {
    case State::kReceiving:
      return forget(request);
    case State::kRunning:
      // The engine may be writing into the blocks: they are free when it has let go.
      parts_.submit(CancelSequence{request->first});
      request->second.state = State::kLeaving;
      return;
    case State::kLeaving:
      return;
  }
}

void DecodeService::forget(Requests::iterator request) {
  parts_.ledger.release(request->second.lease);
  by_wire_.erase(request->second.wire);
  requests_.erase(request);
}

void DecodeService::busy(const WireId& wire, const std::string& reason, std::uint32_t blocks_missing) {
  parts_.metrics.rejected(reason);
  std::vector<Holder> holders;
  for (const auto& [id, request] : requests_) holders.push_back({request.remaining_tokens, request.blocks});
  capnp::MallocMessageBuilder message;
  wire::write_busy(message, wire.request, retry_after(std::move(holders), {blocks_missing, step_seconds()}),
                   reason);
  parts_.routers.send(wire.link, message);
}

}  // namespace lynx
