// The life of one generated sequence, seen from the router:
//
//   queued -> reserving -> prefilling -> decoding -> done
//      ^__________|____________|____________|          (attempt given up: another pair, or back to the queue)
//
// An attempt is one pair of workers under one request id that is never used again, so a late frame of an
// earlier attempt finds nobody. Every way out of an attempt tells each side that may still hold something to
// free it (Cancel, once LastPushes are in), and gives back the load reserved on both. Before the first token
// an attempt is repeated (retry); after it, prompt + generated tokens are prefilled elsewhere and the stream
// goes on at the next index (resume). Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/core/clock.h"
#include "services/router/api_error.h"
#include "services/router/last_pushes.h"
#include "services/router/router_metrics.h"
#include "services/router/sequence_spec.h"
#include "services/router/worker_messages.h"
#include "services/router/worker_table.h"

namespace lynx {

class WorkerSender {
 public:
  virtual ~WorkerSender() = default;
  virtual bool send(WorkerId worker, capnp::MessageBuilder& message) = 0;  // false: that link is down
};

// Where a sequence's outcome goes. After on_finished or on_failed nothing more comes for that choice.
class SequenceListener {
 public:
  virtual ~SequenceListener() = default;
  // In order of index, each once. True: a stop string ended the text here.
  virtual bool on_token(std::uint32_t choice, const GeneratedToken& token) = 0;
  virtual void on_finished(std::uint32_t choice) = 0;
  virtual void on_failed(std::uint32_t choice, const ApiError& error) = 0;
};

struct FlowLimits {
  std::uint32_t max_retries = 3;
  std::uint32_t max_resumes = 8;
};

struct FlowContext {  // outlives every flow
  const Clock& clock;
  WorkerTable& workers;
  WorkerSender& sender;
  RouterMetrics& metrics;
  FlowLimits limits;
  bool count_experts = false;  // the prefill worker is asked for the request's expert profile
  LastPushes last_pushes = {};
};

void send_cancel(FlowContext& context, std::uint64_t request, WorkerId worker);

enum class FlowState : std::uint8_t { kQueued, kReserving, kPrefilling, kDecoding, kDone };
enum class FlowVerdict : std::uint8_t { kContinue, kRequeue, kDone };  // what the owner does next

class RequestFlow {
 public:
  RequestFlow(FlowContext& context, SequenceSpec spec, const SloClass& slo_class, std::uint32_t choice,
              std::shared_ptr<SequenceListener> listener);

  FlowVerdict begin(std::uint64_t request, const Placement& placement);

  // Frames of the current attempt.
  FlowVerdict on_reserved(proto::Lease::Reader lease);
  FlowVerdict on_busy(WorkerId worker, std::chrono::milliseconds retry_after);
  FlowVerdict on_first_token(GeneratedToken token);
  void on_handed_over(SharedProfile experts);  // null: not counted
  FlowVerdict on_decode_token(GeneratedToken token);
  FlowVerdict on_ended(WorkerId worker, const WorkerFault& fault);

  FlowVerdict on_worker_lost(WorkerId worker, const std::string& why);
  FlowVerdict on_reserve_timeout();
  FlowVerdict fail(const ApiError& error);
  void cancel();  // the client has gone: nothing is reported

  FlowState state() const { return state_; }
  std::uint64_t request() const { return attempt_.request; }
  const Placement& placement() const { return attempt_.placement; }
  const SequenceSpec& spec() const { return spec_; }
  WorkerTable::Need need() const;
  bool started() const { return !generated_.empty(); }  // a token has reached the client
  // Whether it no longer waits for workers that have not failed it, when those have no room.
  bool goes_back(Clock::time_point now) const { return now >= go_back_at_; }
  bool turned_away() const { return turned_away_; }  // its last attempt ended with Busy
  bool placed_before() const { return placed_before_; }

 private:
  struct Attempt {
    std::uint64_t request = 0;
    Placement placement;
    bool prefill_open = false;  // that worker may hold something for it
    bool decode_open = false;
    std::vector<GeneratedToken>
        early;                  // decode tokens that overtook the first token, which comes over another link
    bool prefill_sent = false;  // and not turned away
  };

  AttemptHead head() const;
  FlowVerdict accept(GeneratedToken token);
  FlowVerdict finish(bool told_last);  // whether a worker said that the token was the last
  FlowVerdict failed_at(WorkerId worker, const Error& fault, bool transfer = false);
  void transferred();
  void leave_last_pushes();
  FlowVerdict requeue(bool turned_away);
  void close_side(WorkerId worker);
  void end_attempt();

  FlowContext& context_;
  const SequenceSpec spec_;
  const SloClass& slo_class_;
  const std::uint32_t choice_;
  const std::shared_ptr<SequenceListener> listener_;

  FlowState state_ = FlowState::kQueued;
  Attempt attempt_;
  std::vector<TokenId> generated_;
  std::vector<WorkerId> avoid_;
  Clock::time_point go_back_at_;
  std::uint32_t retries_ = 0;
  std::uint32_t resumes_ = 0;
  bool turned_away_ = false;
  bool placed_before_ = false;
};

}  // namespace lynx
