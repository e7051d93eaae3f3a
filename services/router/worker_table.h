// The registered workers and what the router has reserved on each. A prefill and a decode worker form a pair
// when their fingerprints are equal; where workers of several fingerprints are registered at once (a rolling
// upgrade), each request runs within one of them. Pure: no IO, no clock of its own. Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/clock.h"
#include "common/core/result.h"
#include "services/router/expert_profile.h"
#include "services/router/policy.h"
#include "services/router/worker_standing.h"

namespace lynx {

using WorkerId = std::uint64_t;  // one registration: a worker that registers again gets a new one

enum class WorkerRole : std::uint8_t { kPrefill, kDecode };
std::string_view to_string(WorkerRole role);

struct Fingerprint {
  std::uint64_t model = 0;
  std::uint64_t kv_layout = 0;
  bool operator==(const Fingerprint&) const = default;
};
std::string to_string(const Fingerprint& fingerprint);

struct WorkerInfo {
  std::string name;
  std::uint64_t incarnation = 0;
  WorkerRole role = WorkerRole::kPrefill;
  Fingerprint fingerprint;
  std::string model;
  std::uint32_t context_tokens = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t total_blocks = 0;
  std::uint32_t max_batch = 0;
  std::vector<std::uint8_t> kv_address;
  std::string metrics_address;

  std::uint64_t pool_tokens() const { return std::uint64_t{block_tokens} * total_blocks; }
  // The longest sequence it can hold.
  std::uint64_t usable_context() const;
  // What a sequence of so many tokens takes of the pool: whole blocks.
  std::uint64_t held_tokens(std::uint64_t tokens) const;
};

struct WorkerHealth {  // from the last heartbeat
  std::uint32_t free_blocks = 0;
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  bool draining = false;
  float step_seconds = 0;
  std::string transport;
  float routed_experts = 0;  // distinct experts per layer-step of late, before remapping; 0 = no step
  float activated_experts = 0;
};

struct Worker {
  WorkerId id = 0;
  WorkerInfo info;
  WorkerHealth health;
  Clock::time_point heard;
  Clock::time_point busy_until;  // it refused a request: not asked again before
  bool missing = false;          // its heartbeats stopped
  WorkerStanding standing;
  std::uint64_t requests = 0;  // reserved
  std::uint64_t tokens = 0;
  ExpertLoad experts;  // of those reserved whose profile is known

  bool serves() const { return !missing && !health.draining; }
};

// The two workers of one attempt, and what is reserved on them.
struct Placement {
  WorkerId prefill = 0;
  WorkerId decode = 0;
  std::uint64_t prefill_tokens = 0;
  std::uint64_t decode_tokens = 0;  // of its pool: prompt and everything it may generate, in whole blocks
  bool prefill_held = false;
  bool decode_held = false;
  SharedProfile experts = nullptr;  // counted on the decode worker
  bool prefill_tried = false;       // it is the trial of a worker that was put aside
  bool decode_tried = false;
};

struct WorkerTableConfig {
  RoutingPolicy policy = least_loaded;
  std::uint64_t prefill_slots = 8;  // requests under way per prefill worker
  // Decode slots = max_batch x this. Above 1 the batch stays full while sequences are in prefill, but a
  // stream that finds it full then waits between its first and its second token.
  double decode_overcommit = 1;
  std::chrono::milliseconds heartbeat_timeout{3000};
  // Whether a worker may register that fits none of the other role, as the first of a rolling upgrade to
  // another model or layout does. Otherwise it is refused: a wrong setting shows at once, and where it was
  // made.
  bool mixed_fingerprints = false;
};

class WorkerTable {
 public:
  explicit WorkerTable(WorkerTableConfig config) : config_(config) {}

  // Null when it may register. kIncompatible with both fingerprints: it fits no worker of the other role that
  // serves now (see mixed_fingerprints). A name that a live worker of another incarnation holds is refused:
  // two workers by one name would push each other out for ever.
  Status check(const WorkerInfo& info, Clock::time_point now) const;
  void add(WorkerId id, WorkerInfo info, Clock::time_point now);
  void remove(WorkerId id) { workers_.erase(id); }
  const Worker* find(WorkerId id) const;
  const Worker* find(std::string_view name) const;
  const std::map<WorkerId, Worker>& all() const { return workers_; }

  void heartbeat(WorkerId id, WorkerHealth health, Clock::time_point now);
  // Marks and returns the workers whose heartbeats have stopped since the last call.
  std::vector<WorkerId> mark_missing(Clock::time_point now);
  void mark_busy(WorkerId id, Clock::time_point until);

  // A transfer between the two failed. Returns the one that is put aside for it, and for how long: the
  // prefill worker when it fails with all others too and another can take its place, otherwise the decode
  // worker.
  struct PutAside {
    WorkerId worker = 0;
    std::chrono::milliseconds pause{};
  };
  std::optional<PutAside> transfer_failed(WorkerId prefill, WorkerId decode, Clock::time_point now);
  // Returns those that had been put aside.
  std::vector<WorkerId> transferred(WorkerId prefill, WorkerId decode);

  struct Need {
    std::uint64_t total_tokens = 0;    // prompt and everything it may generate
    std::uint32_t prefill_tokens = 0;  // to compute before the first token of this attempt
    std::span<const WorkerId> avoid;   // failed this request: taken only while no other serves that could;
                                       // how long it waits for those is the caller's to say
    WorkerId kept = 0;                 // a decode worker that is kept for another: not taken (0 = none)
    SharedProfile experts = nullptr;   // what it is expected to use
  };
  // Picks a pair and reserves on both, or nothing when none has room now. A decode worker has room while its
  // pool holds everything promised there: it would answer Busy otherwise. Of each role the best that serve
  // are taken, and waited for: those that neither failed this request nor are put aside; else those that only
  // failed it; else any, so that a fleet of failing workers answers with the cause.
  std::optional<Placement> place(const Need& need, Clock::time_point now);
  // Whether a worker of each role has a request slot free: without one, place() finds nothing for anybody.
  bool any_room(Clock::time_point now) const;
  // The serving decode worker that will have room first when nothing more is placed there: the one that must
  // give back the fewest tokens; of those that place() would take. 0: it would fit none even when idle.
  WorkerId first_to_fit(const Need& need, Clock::time_point now) const;
  // The experts that it does use, in place of what was expected; nothing when the decode worker is released.
  void set_experts(Placement& placement, SharedProfile experts);
  // No transfer was begun: it was nobody's trial.
  void give_back_trials(Placement& placement, Clock::time_point now);
  void release_prefill(Placement& placement);
  void release_decode(Placement& placement);

  // The longest sequence that some serving pair can take; 0 = there is no pair.
  std::uint64_t context() const;
  std::string explain_no_pair() const;

 private:
  Status check_fit(const WorkerInfo& info) const;
  bool has_room(const Worker& worker, Clock::time_point now) const;
  std::vector<const Worker*> candidates(WorkerRole role, const Need& need, Clock::time_point now,
                                        int worst) const;
  struct Worst {  // grades that are taken: see place()
    int prefill = 0;
    int decode = 0;
  };
  std::optional<Worst> worst_taken(const Need& need, Clock::time_point now) const;
  const Worker* pick(std::span<const Worker* const> from, const SharedProfile& experts, WorkerId& last) const;
  std::uint64_t request_slots(const Worker& worker) const;
  void release(WorkerId id, std::uint64_t tokens);

  WorkerTableConfig config_;
  std::map<WorkerId, Worker> workers_;
  WorkerId last_prefill_ = 0;
  WorkerId last_decode_ = 0;
};

}  // namespace lynx
