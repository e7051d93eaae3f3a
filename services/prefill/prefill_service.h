// The prefill worker on its IO thread: queues prompts until there are blocks for them, lets the engine
// compute them in chunks, and pushes each finished layer into the decode worker's leased blocks while the
// next one computes.
//
// The first token is known only after the last layer and sampling; so the last run of the last layer waits
// for it, carries it along, and tells the decode worker by that that nothing more will be posted.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/transport/kv_transport.h"
#include "services/prefill/prefill_metrics.h"
#include "services/prefill/prefix_cache.h"
#include "services/prefill/push_plan.h"
#include "services/prefill/push_timeline.h"
#include "services/worker/worker_parts.h"

namespace lynx {

struct PrefillSettings {
  std::uint32_t queue_limit = 64;                  // prompts that wait for blocks; more are Busy
  std::chrono::milliseconds push_timeout{10'000};  // one push; the lease and the request may end earlier
  bool prefix_cache = true;                        // reuse the KV of prompts that begin alike
};

class PrefillService final : public WorkerService {
 public:
  PrefillService(const PrefillSettings& settings, WorkerParts parts, KvTransport& transport,
                 PrefillMetrics& metrics);

  void on_frame(LinkId link, proto::Frame::Reader frame) override;
  void on_link_down(LinkId link) override;
  void on_layer(const LayerDone& layer) override;
  void on_step(StepDone step) override;
  void on_tick() override;
  void drain() override { draining_ = true; }
  void abandon(const Error& why) override;
  bool idle() const override { return requests_.empty(); }
  wire::Load load() const override;
  std::uint32_t held_blocks() const override;

 private:
  // A request leaves when the engine has let go of it and no push of it is under way, however it ended; until
  // then its blocks are not free.
  struct Request {
    WireId wire;
    wire::PrefillRequest in;
    std::uint32_t length = 0;     // tokens of the prompt
    std::vector<TokenId> tokens;  // the same, once the engine has its own
    std::uint32_t cached = 0;     // the first of them, whose KV an earlier prompt left behind
    std::vector<BlockId> known;   // while it waits: the blocks that hold them, as last looked up
    std::uint64_t known_at = 0;   // version of the prefix cache then; 0 = never
    Clock::time_point arrived;
    Clock::time_point deadline;  // of the request and of its lease
    std::optional<Clock::time_point> started;
    std::uint64_t own_lease = 0;  // 0: still in the queue
    std::vector<BlockId> blocks;
    bool in_engine = false;
    bool ended = false;                // failed or cancelled: nothing more is pushed, nothing more is said
    std::optional<BlockRun> last_run;  // waits for the first token
    std::uint32_t pushes_under_way = 0;
    std::uint64_t bytes = 0;
    PushTimeline timeline;
    std::vector<std::uint8_t> expert_shares;  // for the router, where it asked
  };
  using Requests = std::unordered_map<SequenceId, Request>;

  void accept(LinkId link, proto::Prefill::Reader frame);
  Status check(const wire::PrefillRequest& in) const;
  void forget(LinkId teller, proto::Gone::Reader gone);
  void pump_queue();
  bool find_room(SequenceId id, Request& request);
  std::span<const BlockId> cached_blocks(Request& request) const;
  void start(SequenceId id, Request& request, const LeaseTicket& ticket);
  void remember(const Request& request);

  void push_part(const LayerDone& layer, const ChunkPart& part);
  void push_run(SequenceId id, Request& request, std::uint32_t layer, const BlockRun& run,
                std::optional<SampledTokenData> first_token);
  void pushed(SequenceId id, std::size_t push, const Result<std::uint64_t>& bytes);
  void first_token(const SequenceToken& token, const StepDone& step);

  void fail(SequenceId id, const Error& why, wire::FaultOf of = wire::FaultOf::kRequest);
  void cancel(SequenceId id);  // silently
  void settle(SequenceId id);  // lets the request go if nothing holds it any more
  void tell_handed_over(const Request& request);
  void busy(const WireId& wire, const std::string& reason);

  const PrefillSettings settings_;
  const WorkerParts parts_;
  KvTransport& transport_;
  PrefillMetrics& metrics_;
  PrefixCache prefixes_;
  Requests requests_;
  std::map<WireId, SequenceId> by_wire_;
  std::set<std::pair<Clock::time_point, SequenceId>> queue_;  // earliest deadline first
  SequenceId next_id_ = 1;
  std::uint64_t tokens_waiting_ = 0;  // in the queue and in the engine
  double seconds_per_token_ = 0;      // recent mean
  double step_seconds_ = 0;           // recent mean
  bool draining_ = false;
};

}  // namespace lynx
