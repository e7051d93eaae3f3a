#include "common/transport/ucx_connection.h"

#include <algorithm>
#include <utility>

#include "common/core/log.h"
#include "common/transport/ucx_info.h"

namespace lynx {

namespace {

constexpr auto kDeadlineGrain = std::chrono::milliseconds(1);
constexpr auto kPatience = std::chrono::seconds(1);  // a close that works takes milliseconds

void settle(UcxPush& push, Result<std::uint64_t> outcome) {
  if (!push.outcome) push.outcome = std::move(outcome);
}

void on_sent(void* request, ucs_status_t status, void* arg) {
  auto& push = *static_cast<UcxPush*>(arg);
  push.terminal = true;
  if (status != UCS_OK)
    settle(push, ucx_error(ErrorCode::kUnavailable, "KV push to " + push.push.peer.worker, status));
  ucp_request_free(request);
}

bool reads_devices(const std::string& transport) {
  return transport.find("cuda_ipc") != std::string::npos || transport.find("rdma") != std::string::npos;
}

bool finished(const std::unique_ptr<UcxPush>& push) { return push->terminal && push->outcome.has_value(); }

}  // namespace

UcxConnection::UcxConnection(const UcxWorker& worker, const UcxConfig& config, KvPeer peer, KvMemory memory)
    : worker_(worker), config_(config), peer_(std::move(peer)), memory_(memory) {}

UcxConnection::~UcxConnection() = default;

void UcxConnection::enqueue(std::unique_ptr<UcxPush> push) {
  waiting_.push_back(std::move(push));
  post_waiting();
}

bool UcxConnection::acknowledge(const kv_wire::Ack& ack) {
  const auto it =
      std::find_if(posted_.begin(), posted_.end(), [&](const auto& push) { return push->id == ack.push_id; });
  if (it == posted_.end()) return false;
  UcxPush& push = **it;
  push.answered = true;
  if (!ack.verdict) {
    settle(push, ack.verdict.error());
    return true;
  }
  settle(push, push.push.bytes.size());
  if (transport_name_.empty()) learn_transport();
  return true;
}

void UcxConnection::abandon(const Error& why) {
  for (const auto& push : posted_) settle(*push, why);
  fail_waiting(why);
  if (endpoint_) endpoint_->close();
}

void UcxConnection::step(Clock::time_point now, Finished& out) {
  if (const auto failure = endpoint_ ? endpoint_->failure() : std::nullopt) {
    if (!endpoint_->closing())
      log::info("KV connection to {} lost: {}", peer_.worker, ucs_status_string(*failure));
    abandon(ucx_error(ErrorCode::kUnavailable, "lost " + peer_.worker, *failure));
  }
  check_deadlines(now);
  leave_stuck(now);

  const auto first_finished =
      std::stable_partition(posted_.begin(), posted_.end(), [](const auto& push) { return !finished(push); });
  for (auto it = first_finished; it != posted_.end(); ++it) hand_back(std::move(*it));
  posted_.erase(first_finished, posted_.end());

  if (endpoint_ && posted_.empty() && endpoint_->closed()) endpoint_.reset();
  post_waiting();
  std::move(finished_.begin(), finished_.end(), std::back_inserter(out));
  finished_.clear();
  end_loans(now, out);
}

bool UcxConnection::drained() const {
  const bool held =
      std::any_of(posted_.begin(), posted_.end(), [](const auto& push) { return !push->terminal; });
  return !held && (endpoint_ == nullptr || endpoint_->closed());
}

void UcxConnection::post_waiting() {
  if (waiting_.empty()) return;
  if (!endpoint_) {
    auto connected = UcxEndpoint::connect(worker_, peer_.address);
    if (!connected)
      return fail_waiting({connected.error().code, peer_.worker + ": " + connected.error().message});
    endpoint_ = std::move(*connected);
  }
  while (endpoint_->usable() && !waiting_.empty() && posted_.size() < config_.max_in_flight) {
    posted_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    post(*posted_.back());
  }
}

void UcxConnection::post(UcxPush& push) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.flags = UCP_AM_SEND_FLAG_REPLY;
  params.cb.send = on_sent;
  params.user_data = &push;
  params.memory_type = ucx_memory_type(memory_);
  const auto header = kv_wire::bytes_of(push.header);
  void* request = ucp_am_send_nbx(endpoint_->get(), kUcxPush, header.data(), header.size(),
                                  push.push.bytes.data(), push.push.bytes.size(), &params);
  if (UCS_PTR_IS_ERR(request)) {
    settle(push, ucx_error(ErrorCode::kUnavailable, "KV push to " + peer_.worker, UCS_PTR_STATUS(request)));
    return;
  }
  push.sent = true;
  if (request != nullptr) push.terminal = false;
}

void UcxConnection::fail_waiting(const Error& why) {
  for (auto& push : waiting_) {
    settle(*push, why);
    finished_.push_back(std::move(push));
  }
  waiting_.clear();
}

void UcxConnection::check_deadlines(Clock::time_point now) {
  if (now < next_deadline_check_) return;
  next_deadline_check_ = now + kDeadlineGrain;
  const auto late = [now](const auto& push) { return !push->outcome && push->push.deadline <= now; };
  const Error passed{ErrorCode::kDeadlineExceeded, "a KV push to " + peer_.worker + " passed its deadline"};

  const auto first_late =
      std::stable_partition(waiting_.begin(), waiting_.end(), [&](const auto& p) { return !late(p); });
  for (auto it = first_late; it != waiting_.end(); ++it) {
    settle(**it, passed);
    finished_.push_back(std::move(*it));
  }
  waiting_.erase(first_late, waiting_.end());

  bool stuck = false;
  for (const auto& push : posted_) {
    if (!late(push)) continue;
    settle(*push, passed);
    stuck = true;
  }
  // UCX cannot take back one push. A peer that lets one pass its deadline is stopped or gone: the connection
  // goes.
  if (stuck)
    abandon(
        {ErrorCode::kUnavailable, peer_.worker + " answers no more: an earlier push passed its deadline"});
}

// Over shared memory UCX can hold a push to a dead peer for ever, although its endpoint was closed by force.
// There it reads the bytes of the host's memory only inside progress(), in this process: so the owner gets
// them back after a while, and what UCX points to stays as a shell. A device's bytes may be read by the peer,
// so they stay lent as any other push's. RDMA hardware reads whenever it likes: a push over it is never left.
void UcxConnection::leave_stuck(Clock::time_point now) {
  std::erase_if(left_, [](const auto& shell) { return shell->terminal; });
  if (!endpoint_ || !endpoint_->closing()) {
    closing_since_.reset();
    return;
  }
  if (!closing_since_) closing_since_ = now;
  if (config_.transport != "shm" || now - *closing_since_ < kPatience) return;
  for (auto& push : posted_) {
    if (push->terminal || !push->outcome) continue;
    auto owed = std::make_unique<UcxPush>();
    owed->push = std::move(push->push);
    owed->done = std::move(push->done);
    owed->sent = push->sent;
    owed->answered = push->answered;
    owed->outcome = push->outcome;
    hand_back(std::move(owed));
    left_.push_back(std::move(push));
  }
  if (std::erase(posted_, nullptr) > 0)
    log::warn("UCX does not let go of {} KV pushes to {}: leaving them behind", left_.size(), peer_.worker);
}

void UcxConnection::hand_back(std::unique_ptr<UcxPush> push) {
  (is_lent(*push, memory_) ? lent_ : finished_).push_back(std::move(push));
}

// What the peer may still be reading is the owner's again when it no longer counts.
void UcxConnection::end_loans(Clock::time_point now, Finished& out) {
  const auto over = std::stable_partition(lent_.begin(), lent_.end(),
                                          [now](const auto& push) { return push->push.deadline > now; });
  std::move(over, lent_.end(), std::back_inserter(out));
  lent_.erase(over, lent_.end());
}

void UcxConnection::learn_transport() {
  if (!endpoint_ || !endpoint_->usable()) return;
  transport_name_ =
      ucx_chosen_transport(captured([this](std::FILE* out) { ucp_ep_print_info(endpoint_->get(), out); }));
  log::info("KV goes to {} over {}", peer_.worker, transport_name_);
  if (memory_ == KvMemory::kDevice && !reads_devices(transport_name_))
    log::warn("KV in device memory is copied by the CPU on its way to {}: kv.path 'pinned' is faster there",
              peer_.worker);
  const std::string& required = config_.require_transport;
  if (required.empty() || transport_name_.find(required) != std::string::npos) return;
  const std::string message = "KV to " + peer_.worker + " goes over '" + transport_name_ +
                              "', but require_transport is '" + required + "'";
  log::error("{}", message);
  abandon({ErrorCode::kIncompatible, message});
}

}  // namespace lynx
