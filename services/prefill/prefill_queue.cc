// Which prompt starts next: the wait for blocks, those that earlier prompts left behind, the engine.
#include <utility>

#include "common/core/check.h"
#include "services/prefill/prefill_service.h"

namespace lynx {

// The earliest deadline first. One that finds no room is passed by, for half of its time: then what comes
// free is kept for it, or a stream of short prompts would take every block before there are enough.
void PrefillService::pump_queue() {
  const auto now = parts_.clock.now();
  for (auto next = queue_.begin(); next != queue_.end();) {
    const auto turn = *next;
    Request& request = requests_.at(turn.second);
    const auto patience = (request.deadline - request.arrived) / 2;
    const bool passed_by = now < request.arrived + patience;
    if (!find_room(turn.second, request) && !passed_by) return;
    next = queue_.upper_bound(turn);  // its start may have ended others
  }
}

// False: it waits on; what runs will free some.
bool PrefillService::find_room(SequenceId id, Request& request) {
  const PageLayout& layout = parts_.cache.layout();
  const std::span<const BlockId> cached = cached_blocks(request);
  const Result<LeaseTicket> ticket = parts_.ledger.allocate(id, layout.blocks_for(request.length), cached);
  if (!ticket) return false;
  request.cached = static_cast<std::uint32_t>(cached.size()) * layout.block_tokens;
  request.known = {};
  metrics_.looked_up(request.cached, request.length);
  queue_.erase({request.deadline, id});
  start(id, request, *ticket);
  return true;
}

// The last token is computed in any case: its logits give the first token.
std::span<const BlockId> PrefillService::cached_blocks(Request& request) const {
  if (!settings_.prefix_cache) return {};
  if (std::exchange(request.known_at, prefixes_.version()) != prefixes_.version())
    request.known = prefixes_.find({request.in.cache_salt, request.in.head.tokens},
                                   (request.length - 1) / parts_.cache.layout().block_tokens);
  return request.known;
}

void PrefillService::start(SequenceId id, Request& request, const LeaseTicket& ticket) {
  const auto view = parts_.ledger.find(ticket.id);
  LYNX_CHECK(view.has_value(), "a lease just granted is there");
  request.own_lease = ticket.id;
  request.blocks.assign(view->blocks.begin(), view->blocks.end());
  Sequence sequence;
  sequence.id = id;
  request.tokens = std::move(request.in.head.tokens);
  sequence.tokens = request.tokens;
  sequence.cached = request.cached;
  sequence.prompt_tokens = request.length - request.in.head.generated;
  sequence.blocks = request.blocks;
  sequence.sampling = std::move(request.in.head.sampling);
  sequence.deadline = request.deadline;
  sequence.one_token = true;
  if (request.in.count_experts) sequence.expert_counts = ExpertCounts(parts_.model);
  request.in_engine = parts_.submit(AdmitSequence{std::move(sequence)});
  if (!request.in_engine) fail(id, {ErrorCode::kUnavailable, "the engine takes no more sequences"});
}

// Every layer of the prompt is computed.
void PrefillService::remember(const Request& request) {
  if (!settings_.prefix_cache) return;
  prefixes_.add({request.in.cache_salt, request.tokens}, request.blocks,
                [this](BlockId block) { parts_.ledger.keep(block); });
}

}  // namespace lynx
