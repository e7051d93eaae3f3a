#include "services/prefill/prefill_service.h"

#include <algorithm>
#include <unordered_set>

#include "common/core/log.h"
#include "common/core/random.h"

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kSoonestRetry{10};
constexpr std::chrono::milliseconds kLatestRetry{30'000};
constexpr double kUnknownSecondsPerToken = 1e-3;

// Recent mean over about ten values.
void follow(double& mean, double value) { mean = mean == 0 ? value : mean + 0.1 * (value - mean); }

}  // namespace

PrefillService::PrefillService(const PrefillSettings& settings, WorkerParts parts, KvTransport& transport,
                               PrefillMetrics& metrics)
    : settings_(settings),
      parts_(std::move(parts)),
      transport_(transport),
      metrics_(metrics),
      prefixes_(parts_.cache.layout().block_tokens, random64()) {
  parts_.ledger.on_reuse([this](BlockId block) { prefixes_.forget(block); });
}

void PrefillService::on_frame(LinkId link, proto::Frame::Reader frame) {
  if (frame.isPrefill()) {
    accept(link, frame.getPrefill());
  } else if (frame.isCancel()) {
    const auto found = by_wire_.find({link, frame.getCancel().getRequest()});
    if (found != by_wire_.end()) cancel(found->second);
  } else if (frame.isGone()) {
    forget(link, frame.getGone());
  } else if (!frame.isPing()) {
    log::warn("a router sent a frame that is not for a prefill worker (kind {})",
              static_cast<int>(frame.which()));
  }
}

void PrefillService::on_link_down(LinkId link) {
  std::vector<SequenceId> lost;
  for (auto it = by_wire_.lower_bound({link, 0}); it != by_wire_.end() && it->first.link == link; ++it)
    lost.push_back(it->second);
  for (const SequenceId id : lost) cancel(id);
}

void PrefillService::accept(LinkId link, proto::Prefill::Reader frame) {
  const WireId wire{link, frame.getRequest()};
  Result<wire::PrefillRequest> in = wire::read_prefill(frame);
  if (!in) return parts_.tell_ended(wire, in.error());
  if (by_wire_.contains(wire))
    return parts_.tell_ended(wire, {ErrorCode::kInternal, "the request id is in use"});
  if (const Status status = check(*in); !status) return parts_.tell_ended(wire, status.error());
  if (draining_) return busy(wire, "draining");
  if (queue_.size() >= settings_.queue_limit) return busy(wire, "queue_full");

  const SequenceId id = next_id_++;
  Request& request = requests_[id];
  request.wire = wire;
  request.length = static_cast<std::uint32_t>(in->head.tokens.size());
  request.arrived = parts_.clock.now();
  request.deadline = request.arrived + std::min(in->head.deadline, in->lease_deadline);
  request.in = std::move(*in);
  tokens_waiting_ += request.length;
  by_wire_.emplace(wire, id);
  queue_.emplace(request.deadline, id);
  pump_queue();
}

Status PrefillService::check(const wire::PrefillRequest& in) const {
  if (Status status = check_request(in.head.tokens, in.head.generated, in.head.sampling, parts_.model);
      !status)
    return status;
  const std::uint32_t blocks =
      parts_.cache.layout().blocks_for(static_cast<std::uint32_t>(in.head.tokens.size()));
  if (in.lease_blocks.size() != blocks)
    return {ErrorCode::kIncompatible, "the lease has " + std::to_string(in.lease_blocks.size()) +
                                          " blocks, the prompt fills " + std::to_string(blocks)};
  if (blocks > parts_.ledger.total_blocks())
    return {ErrorCode::kInvalidArgument, "the prompt needs " + std::to_string(blocks) +
                                             " KV blocks, the pool has " +
                                             std::to_string(parts_.ledger.total_blocks())};
  return {};
}

// Nothing is kept about decode workers: each request brings the life it means, and a life is one incarnation
// exactly, whichever of two is the larger. Another router may still reach a worker that this one has lost;
// then its word, or the transport, ends what is under way.
void PrefillService::forget(LinkId teller, proto::Gone::Reader gone) {
  const KvPeer peer{gone.getWorker().cStr(), gone.getIncarnation(), {}};
  const bool wanted = std::any_of(requests_.begin(), requests_.end(), [&](const auto& entry) {
    const Request& request = entry.second;
    return !request.ended && request.wire.link != teller && request.in.decode.worker == peer.worker &&
           request.in.decode.incarnation == peer.incarnation;
  });
  if (wanted) return;
  log::info("decode worker '{}' (incarnation {:x}) is gone: what is being pushed there is given up",
            peer.worker, peer.incarnation);
  transport_.forget(peer);
}

void PrefillService::on_step(StepDone step) {
  if (step.rows > 0) {
    const double duration = seconds(step.finished - step.started);
    follow(step_seconds_, duration);
    follow(seconds_per_token_, duration / step.rows);
  }
  for (const SequenceToken& token : step.tokens) first_token(token, step);
  for (const SequenceEnded& end : step.ended) {
    const auto found = requests_.find(end.sequence);
    if (found == requests_.end()) continue;
    found->second.in_engine = false;
    if (!end.why && !found->second.ended) {
      fail(end.sequence, end.why.error());
    } else {
      settle(end.sequence);
    }
  }
}

void PrefillService::on_tick() {
  const auto now = parts_.clock.now();
  while (!queue_.empty() && queue_.begin()->first <= now)
    fail(queue_.begin()->second,
         {ErrorCode::kDeadlineExceeded, "no blocks were free for the prompt by its deadline"});
  parts_.metrics.show_queue(queue_.size());
}

void PrefillService::abandon(const Error& why) {
  std::vector<SequenceId> all;
  for (const auto& [id, request] : requests_) all.push_back(id);
  for (const SequenceId id : all) fail(id, why);
}

wire::Load PrefillService::load() const {
  wire::Load load;
  load.free_blocks = parts_.ledger.free_blocks();
  load.waiting = static_cast<std::uint32_t>(queue_.size());
  load.running = static_cast<std::uint32_t>(requests_.size()) - load.waiting;
  load.draining = draining_;
  load.step_seconds = static_cast<float>(step_seconds_);
  return load;
}

std::uint32_t PrefillService::held_blocks() const {
  std::unordered_set<BlockId> held;  // several prompts may share one
  for (const auto& [id, request] : requests_) held.insert(request.blocks.begin(), request.blocks.end());
  return static_cast<std::uint32_t>(held.size());
}

void PrefillService::fail(SequenceId id, const Error& why, wire::FaultOf of) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  if (!found->second.ended) parts_.tell_ended(found->second.wire, why, of);
  cancel(id);
}

void PrefillService::cancel(SequenceId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Request& request = found->second;
  if (!std::exchange(request.ended, true) && request.in_engine) parts_.submit(CancelSequence{id});
  queue_.erase({request.deadline, id});
  settle(id);
}

void PrefillService::settle(SequenceId id) {
  const auto found = requests_.find(id);
  Request& request = found->second;
  const bool waits = request.own_lease == 0 && !request.ended;
  if (waits || request.in_engine || request.pushes_under_way > 0) return;
  if (!request.ended) tell_handed_over(request);
  parts_.ledger.release(request.own_lease);
  tokens_waiting_ -= request.length;
  by_wire_.erase(request.wire);
  requests_.erase(found);
  pump_queue();
}

void PrefillService::tell_handed_over(const Request& request) {
  const PushTimeline& timeline = request.timeline;
  metrics_.handed_over(timeline);
  capnp::MallocMessageBuilder message;
  wire::write_handed_over(
      message, {request.wire.request, request.bytes, timeline.transfer_seconds(), timeline.exposed_seconds(),
                transport_.transport_name(), request.expert_shares});
  parts_.routers.send(request.wire.link, message);
}

void PrefillService::busy(const WireId& wire, const std::string& reason) {
  parts_.metrics.rejected(reason);
  const double per_token = seconds_per_token_ > 0 ? seconds_per_token_ : kUnknownSecondsPerToken;
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(per_token * static_cast<double>(tokens_waiting_)));
  capnp::MallocMessageBuilder message;
  wire::write_busy(message, wire.request, std::clamp(wait, kSoonestRetry, kLatestRetry), reason);
  parts_.routers.send(wire.link, message);
}

}  // namespace lynx
