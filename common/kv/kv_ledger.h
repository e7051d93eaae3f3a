// The account of every KV block of one worker, and the leases over them. A block is in exactly one state; the
// sum of the states is the pool. Owned by the worker's IO thread: no locks, every method on that thread. Time
// is handed in.
//
//   decode worker:
//     free -> leased -> receiving -> active -> free
//     leased/receiving -> quarantined -> free    (a lease revoked while a write may still be under way)
//
//   prefill worker:
//     free -> active -> free                     (its own prompts; several may share a block)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/core/clock.h"
#include "common/core/result.h"
#include "common/kv/block_account.h"
#include "common/kv/page_layout.h"

namespace lynx {

struct LeaseTicket {             // what the holder shows with every write
  std::uint64_t id = 0;          // never used twice by one ledger
  std::uint32_t generation = 0;  // of the lease's first block: two leases over it never share one
  std::uint64_t key = 0;         // lease_key.h
};

struct LeaseView {
  LeaseTicket ticket;
  std::uint64_t request = 0;
  std::span<const BlockId>
      blocks;  // prompt blocks first, then room for the generated tokens; valid until the next change
  std::uint32_t prompt_blocks = 0;  // the part a peer may write
  Clock::time_point deadline;
};

class KvLedger {
 public:
  KvLedger(std::uint32_t blocks, std::uint64_t seed);

  // All or nothing. kBusy when there is no room now, kInvalidArgument when there never can be.
  Result<LeaseTicket> lease(std::uint64_t request, std::uint32_t prompt_blocks, std::uint32_t total_blocks,
                            Clock::time_point deadline);
  // A prompt's own blocks on the prefill worker: leased and active at once, no remote writer. The first are
  // those in `shared`, each kept or active; the rest are fresh.
  Result<LeaseTicket> allocate(std::uint64_t request, std::uint32_t blocks,
                               std::span<const BlockId> shared = {});

  // What this block holds is worth finding again: once free, it is handed out after every block that is not
  // kept, the one that was freed first before the others. on_reuse is called when it is.
  void keep(BlockId block) { blocks_.keep(block); }
  void on_reuse(std::function<void(BlockId)> told) { blocks_.on_reuse(std::move(told)); }

  std::optional<LeaseView> find(std::uint64_t lease_id) const;

  // A write is about to land: checks id, generation, key, deadline and that all blocks are writable parts of
  // the lease. Counts one write under way on success. Errors: kNotFound (unknown or dead), kPermission
  // (generation, key, blocks, or a lease that is active already), kDeadlineExceeded.
  Status begin_write(const LeaseTicket& ticket, BlockId first, std::uint32_t count, Clock::time_point now);
  // The write is terminal (landed or failed). When the lease was revoked meanwhile, the last one frees its
  // quarantine.
  void end_write(std::uint64_t lease_id);

  // Everything is in: leased/receiving -> active. kNotFound for a dead lease, kInvalidArgument while a write
  // is under way or when it is active already.
  Status activate(std::uint64_t lease_id);
  // Frees the lease's blocks: at once, or, those that a write has begun on, by way of quarantine. Unknown ids
  // are ignored (a release may cross an expiry). The ticket is dead from here on.
  void release(std::uint64_t lease_id);

  // Releases every not-yet-active lease whose deadline has passed and returns their requests.
  std::vector<std::uint64_t> expire(Clock::time_point now);

  std::array<std::uint32_t, kBlockStates> counts() const { return blocks_.counts(); }
  std::uint32_t free_blocks() const { return blocks_.free_blocks(); }
  std::uint32_t total_blocks() const { return blocks_.total_blocks(); }
  bool all_free() const;
  std::uint64_t granted() const { return next_id_ - 1; }  // leases and allocations since the start
  std::size_t leases() const { return leases_.size(); }   // now, revoked ones with a write under way included
  // GET /debug/kv: counts, and each lease with its state, blocks, writes and, when the time is given, its
  // time left.
  std::string to_json(std::optional<Clock::time_point> now = std::nullopt) const;

 private:
  enum class Phase : std::uint8_t { kOpen, kActive, kRevoked };  // revoked: waits for its last write to end
  struct Lease {
    LeaseTicket ticket;
    std::uint64_t request = 0;
    std::vector<BlockId> blocks;
    std::uint32_t prompt_blocks = 0;
    Clock::time_point deadline;
    std::uint32_t writes = 0;  // under way
    Phase phase = Phase::kOpen;
  };
  using Leases = std::unordered_map<std::uint64_t, Lease>;

  Status check_room(std::uint32_t prompt_blocks, std::uint32_t total_blocks) const;
  Lease& grant(std::uint64_t request, std::uint32_t prompt_blocks, std::uint32_t total_blocks,
               BlockState state, std::span<const BlockId> shared = {});
  Status may_write(const LeaseTicket& ticket, Clock::time_point now) const;
  void revoke(Leases::iterator lease);

  BlockAccount blocks_;
  std::vector<std::uint32_t> generations_;  // how often each block has been handed out
  Leases leases_;
  std::uint64_t next_id_ = 1;
  std::uint64_t seed_;  // of the lease keys
};

}  // namespace lynx
