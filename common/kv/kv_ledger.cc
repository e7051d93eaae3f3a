#include "common/kv/kv_ledger.h"

#include <algorithm>

#include "common/core/check.h"
#include "common/kv/lease_key.h"

namespace lynx {

namespace {

std::string lease_name(std::uint64_t id) { return "lease " + std::to_string(id); }

// blocks is strictly ascending, so the run is part of it exactly if its two ends are count - 1 places apart.
bool contains_run(std::span<const BlockId> blocks, BlockId first, std::uint32_t count) {
  const auto at = std::lower_bound(blocks.begin(), blocks.end(), first);
  if (at == blocks.end() || *at != first) return false;
  const auto left = static_cast<std::size_t>(blocks.end() - at);
  return count >= 1 && count <= left && at[count - 1] == first + (count - 1);
}

}  // namespace

KvLedger::KvLedger(std::uint32_t blocks, std::uint64_t seed)
    : blocks_(blocks), generations_(blocks, 0), seed_(seed) {}

Result<LeaseTicket> KvLedger::lease(std::uint64_t request, std::uint32_t prompt_blocks,
                                    std::uint32_t total_blocks, Clock::time_point deadline) {
  if (Status room = check_room(prompt_blocks, total_blocks); !room) return room.error();
  Lease& lease = grant(request, prompt_blocks, total_blocks, BlockState::kLeased);
  lease.deadline = deadline;
  return lease.ticket;
}

Result<LeaseTicket> KvLedger::allocate(std::uint64_t request, std::uint32_t blocks,
                                       std::span<const BlockId> shared) {
  LYNX_CHECK(shared.size() <= blocks, "a prompt shares more blocks than it has");
  // Those that others use now need no room.
  const auto used = static_cast<std::uint32_t>(
      std::count_if(shared.begin(), shared.end(), [&](BlockId block) { return blocks_.uses(block) > 0; }));
  if (blocks == 0 || blocks > used) {
    if (Status room = check_room(blocks - used, blocks - used); !room) return room.error();
  }
  Lease& lease = grant(request, blocks, blocks, BlockState::kActive, shared);
  lease.deadline = Clock::time_point::max();
  lease.phase = Phase::kActive;
  return lease.ticket;
}

std::optional<LeaseView> KvLedger::find(std::uint64_t lease_id) const {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end() || it->second.phase == Phase::kRevoked) return std::nullopt;
  const Lease& lease = it->second;
  return LeaseView{lease.ticket, lease.request, lease.blocks, lease.prompt_blocks, lease.deadline};
}

Status KvLedger::begin_write(const LeaseTicket& ticket, BlockId first, std::uint32_t count,
                             Clock::time_point now) {
  if (Status allowed = may_write(ticket, now); !allowed) return allowed;
  Lease& lease = leases_.at(ticket.id);
  const std::span<const BlockId> prompt(lease.blocks.data(), lease.prompt_blocks);
  if (!contains_run(prompt, first, count)) {
    return {ErrorCode::kPermission, lease_name(ticket.id) + " does not hold prompt blocks " +
                                        std::to_string(first) + "+" + std::to_string(count)};
  }
  for (BlockId block = first; block < first + count; ++block)
    blocks_.set_state(block, BlockState::kReceiving);
  ++lease.writes;
  return {};
}

void KvLedger::end_write(std::uint64_t lease_id) {
  const auto it = leases_.find(lease_id);
  LYNX_CHECK(it != leases_.end() && it->second.writes > 0, "a KV write ends that never began");
  Lease& lease = it->second;
  --lease.writes;
  if (lease.phase != Phase::kRevoked || lease.writes > 0) return;
  for (const BlockId block : lease.blocks) blocks_.give_back(block);
  leases_.erase(it);
}

Status KvLedger::activate(std::uint64_t lease_id) {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end() || it->second.phase == Phase::kRevoked)
    return {ErrorCode::kNotFound, lease_name(lease_id) + " is unknown or dead"};
  Lease& lease = it->second;
  if (lease.phase == Phase::kActive)
    return {ErrorCode::kInvalidArgument, lease_name(lease_id) + " is active already"};
  if (lease.writes > 0) return {ErrorCode::kInvalidArgument, lease_name(lease_id) + " has writes under way"};
  for (const BlockId block : lease.blocks) blocks_.set_state(block, BlockState::kActive);
  lease.phase = Phase::kActive;
  return {};
}

void KvLedger::release(std::uint64_t lease_id) {
  const auto it = leases_.find(lease_id);
  if (it != leases_.end() && it->second.phase != Phase::kRevoked) revoke(it);
}

std::vector<std::uint64_t> KvLedger::expire(Clock::time_point now) {
  std::vector<std::uint64_t> dead;
  for (const auto& [id, lease] : leases_)
    if (lease.phase == Phase::kOpen && lease.deadline <= now) dead.push_back(id);
  std::sort(dead.begin(), dead.end());  // oldest first, whatever the hash table's order
  std::vector<std::uint64_t> requests;
  for (const std::uint64_t id : dead) {
    const auto it = leases_.find(id);
    requests.push_back(it->second.request);
    revoke(it);
  }
  return requests;
}

bool KvLedger::all_free() const { return leases_.empty() && free_blocks() == total_blocks(); }

Status KvLedger::check_room(std::uint32_t prompt_blocks, std::uint32_t total_blocks_wanted) const {
  if (total_blocks_wanted == 0 || prompt_blocks > total_blocks_wanted) {
    return {ErrorCode::kInvalidArgument, "a lease of " + std::to_string(total_blocks_wanted) +
                                             " blocks with " + std::to_string(prompt_blocks) +
                                             " for the prompt makes no sense"};
  }
  if (total_blocks_wanted > total_blocks()) {
    return {ErrorCode::kInvalidArgument, std::to_string(total_blocks_wanted) +
                                             " KV blocks are needed, the pool has " +
                                             std::to_string(total_blocks())};
  }
  if (total_blocks_wanted > free_blocks()) {
    return {ErrorCode::kBusy, std::to_string(total_blocks_wanted) + " KV blocks are needed, " +
                                  std::to_string(free_blocks()) + " are free"};
  }
  return {};
}

KvLedger::Lease& KvLedger::grant(std::uint64_t request, std::uint32_t prompt_blocks,
                                 std::uint32_t total_blocks_granted, BlockState state,
                                 std::span<const BlockId> shared) {
  const std::uint64_t id = next_id_++;
  Lease& lease = leases_[id];
  lease.request = request;
  lease.prompt_blocks = prompt_blocks;
  lease.blocks.reserve(total_blocks_granted);
  lease.blocks.assign(shared.begin(), shared.end());
  for (const BlockId block : shared) blocks_.take_shared(block);
  // The prompt first and by itself: its runs are what travels.
  const auto held = static_cast<std::uint32_t>(shared.size());
  blocks_.take_fresh(prompt_blocks - held, lease.blocks);
  blocks_.take_fresh(total_blocks_granted - prompt_blocks, lease.blocks);
  for (std::size_t i = held; i < lease.blocks.size(); ++i) {
    blocks_.set_state(lease.blocks[i], state);
    ++generations_[lease.blocks[i]];
  }
  lease.ticket = {id, generations_[lease.blocks.front()], lease_key(seed_, id)};
  return lease;
}

Status KvLedger::may_write(const LeaseTicket& ticket, Clock::time_point now) const {
  const auto it = leases_.find(ticket.id);
  if (it == leases_.end() || it->second.phase == Phase::kRevoked)
    return {ErrorCode::kNotFound, lease_name(ticket.id) + " is unknown or dead"};
  const Lease& lease = it->second;
  if (lease.ticket.key != ticket.key || lease.ticket.generation != ticket.generation)
    return {ErrorCode::kPermission, lease_name(ticket.id) + " was shown with a wrong generation or key"};
  if (lease.phase == Phase::kActive)
    return {ErrorCode::kPermission, lease_name(ticket.id) + " is active and takes no writes"};
  if (lease.deadline <= now) return {ErrorCode::kDeadlineExceeded, lease_name(ticket.id) + " has expired"};
  return {};
}

void KvLedger::revoke(Leases::iterator it) {
  Lease& lease = it->second;
  if (lease.writes == 0) {
    // The prompt's end first: of what is kept, that is found again least often.
    for (auto block = lease.blocks.rbegin(); block != lease.blocks.rend(); ++block) blocks_.give_back(*block);
    leases_.erase(it);
    return;
  }
  lease.phase = Phase::kRevoked;
  std::vector<BlockId> held;
  for (const BlockId block : lease.blocks) {
    if (blocks_.state(block) == BlockState::kReceiving) {
      blocks_.set_state(block, BlockState::kQuarantined);
      held.push_back(block);
    } else {
      blocks_.give_back(block);
    }
  }
  lease.blocks = std::move(held);
}

}  // namespace lynx
