// Who may register with the table, and what is said when none fit together.
#include <algorithm>
#include <utility>

#include "common/core/worker_name.h"
#include "services/router/worker_table.h"

namespace lynx {
namespace {

std::string hex(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(16, '0');
  for (std::size_t i = 0; i < out.size(); ++i) out[out.size() - 1 - i] = kDigits[(value >> (4 * i)) & 0xF];
  return out;
}

std::string describe(const WorkerInfo& info) {
  return std::string(to_string(info.role)) + " worker '" + info.name + "' has " + to_string(info.fingerprint);
}

Status wrong(const WorkerInfo& info, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "worker '" + info.name + "': " + what};
}

}  // namespace

std::string_view to_string(WorkerRole role) { return role == WorkerRole::kPrefill ? "prefill" : "decode"; }

std::string to_string(const Fingerprint& fingerprint) {
  return "model " + hex(fingerprint.model) + " kv_layout " + hex(fingerprint.kv_layout);
}

Status WorkerTable::check(const WorkerInfo& info, Clock::time_point now) const {
  if (!is_worker_name(info.name))
    return {ErrorCode::kInvalidArgument, "a worker's name must be 1 to 128 of A-Z a-z 0-9 . _ -"};
  if (info.incarnation == 0) return wrong(info, "a worker needs an incarnation");
  if (info.usable_context() == 0) return wrong(info, "its context or its KV pool is empty");
  if (info.role == WorkerRole::kDecode && info.max_batch == 0) return wrong(info, "its max_batch is 0");
  const Worker* holder = find(info.name);
  const bool free = holder == nullptr || holder->info.incarnation == info.incarnation ||
                    now - holder->heard >= config_.heartbeat_timeout;
  if (free) return check_fit(info);
  return wrong(info, "the name belongs to another live worker (incarnation " + hex(holder->info.incarnation) +
                         "); this one is " + hex(info.incarnation));
}

Status WorkerTable::check_fit(const WorkerInfo& info) const {
  if (config_.mixed_fingerprints) return {};
  const Worker* unlike = nullptr;
  for (const auto& [id, other] : workers_) {
    if (other.info.role == info.role || !other.serves() || other.info.name == info.name) continue;
    if (other.info.fingerprint == info.fingerprint) return {};
    unlike = &other;
  }
  if (unlike == nullptr) return {};
  return {ErrorCode::kIncompatible, describe(info) + ", but " + describe(unlike->info) +
                                        ": no request can use both (model files, kv.block_tokens and the "
                                        "KV type must be the same)"};
}

std::string WorkerTable::explain_no_pair() const {
  const auto serving = [&](WorkerRole role) -> const Worker* {
    for (const auto& [id, worker] : workers_)
      if (worker.info.role == role && worker.serves()) return &worker;
    return nullptr;
  };
  const Worker* prefill = serving(WorkerRole::kPrefill);
  if (prefill == nullptr) return "no prefill worker serves now";
  const Worker* decode = serving(WorkerRole::kDecode);
  if (decode == nullptr) return "no decode worker serves now";
  return "no prefill and decode worker fit together: " + describe(prefill->info) + ", " +
         describe(decode->info);
}

}  // namespace lynx
