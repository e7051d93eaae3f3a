#include "services/router/worker_table.h"

#include <algorithm>
#include <utility>

namespace lynx {

std::uint64_t WorkerInfo::usable_context() const {
  return std::min<std::uint64_t>(context_tokens, pool_tokens());
}

std::uint64_t WorkerInfo::held_tokens(std::uint64_t tokens) const {
  return (tokens + block_tokens - 1) / block_tokens * block_tokens;
}

std::optional<WorkerTable::PutAside> WorkerTable::transfer_failed(WorkerId prefill, WorkerId decode,
                                                                  Clock::time_point now) {
  const auto from = workers_.find(prefill);
  const auto to = workers_.find(decode);
  if (from == workers_.end() || to == workers_.end()) return std::nullopt;
  from->second.standing.failed(decode);
  to->second.standing.failed(prefill);
  const bool replaceable = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const Worker& other = entry.second;
    return entry.first != prefill && other.info.role == WorkerRole::kPrefill && other.serves() &&
           other.info.fingerprint == from->second.info.fingerprint && !other.standing.aside(now);
  });
  Worker& blamed = replaceable && from->second.standing.fails_with_all() ? from->second : to->second;
  const auto pause = blamed.standing.put_aside(now);
  if (!pause) return std::nullopt;
  return PutAside{blamed.id, *pause};
}

std::vector<WorkerId> WorkerTable::transferred(WorkerId prefill, WorkerId decode) {
  std::vector<WorkerId> back;
  for (const WorkerId id : {prefill, decode}) {
    const auto at = workers_.find(id);
    if (at != workers_.end() && at->second.standing.succeeded()) back.push_back(id);
  }
  return back;
}

void WorkerTable::add(WorkerId id, WorkerInfo info, Clock::time_point now) {
  Worker worker;
  worker.id = id;
  worker.health.free_blocks = info.total_blocks;
  worker.info = std::move(info);
  worker.heard = now;
  worker.busy_until = now;
  workers_[id] = std::move(worker);
}

const Worker* WorkerTable::find(WorkerId id) const {
  const auto at = workers_.find(id);
  return at == workers_.end() ? nullptr : &at->second;
}

const Worker* WorkerTable::find(std::string_view name) const {
  for (const auto& [id, worker] : workers_)
    if (worker.info.name == name) return &worker;
  return nullptr;
}

void WorkerTable::heartbeat(WorkerId id, WorkerHealth health, Clock::time_point now) {
  const auto at = workers_.find(id);
  if (at == workers_.end()) return;
  at->second.health = std::move(health);
  at->second.heard = now;
  at->second.missing = false;
}

std::vector<WorkerId> WorkerTable::mark_missing(Clock::time_point now) {
  std::vector<WorkerId> lost;
  for (auto& [id, worker] : workers_) {
    if (worker.missing || now - worker.heard < config_.heartbeat_timeout) continue;
    worker.missing = true;
    lost.push_back(id);
  }
  return lost;
}

void WorkerTable::mark_busy(WorkerId id, Clock::time_point until) {
  const auto at = workers_.find(id);
  if (at != workers_.end()) at->second.busy_until = until;
}

std::uint64_t WorkerTable::context() const {
  std::uint64_t longest = 0;
  for (const auto& [prefill_id, prefill] : workers_) {
    if (prefill.info.role != WorkerRole::kPrefill || !prefill.serves()) continue;
    for (const auto& [decode_id, decode] : workers_) {
      if (decode.info.role != WorkerRole::kDecode || !decode.serves()) continue;
      if (prefill.info.fingerprint != decode.info.fingerprint) continue;
      longest = std::max(longest, std::min(prefill.info.usable_context(), decode.info.usable_context()));
    }
  }
  return longest;
}

}  // namespace lynx
