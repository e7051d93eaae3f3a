// The sending side of one life of one peer: its endpoint, the pushes that UCX holds and those that wait for
// room.
//
//   waiting -> posted -> (UCX terminal and acknowledged) -> finished
//
// A connection is lost as a whole: peer gone, a deadline passed, or forgotten. Then it is closed by force,
// every push fails, and each is handed out only when UCX holds nothing of it any more and it is lent to
// nobody (kv_loan.h), so its bytes are the owner's again. A push that comes meanwhile waits for the close to
// end and opens a fresh endpoint.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/transport/kv_transport.h"
#include "common/transport/kv_wire.h"
#include "common/transport/ucx_handles.h"

namespace lynx {

enum UcxMessage : unsigned { kUcxPush = 1, kUcxAck = 2 };  // ids of our active messages

struct UcxPush {
  std::uint64_t id = 0;
  KvPush push;
  KvTransport::Done done;
  kv_wire::Words header;
  bool terminal = true;                          // UCX holds neither header nor bytes
  bool sent = false;                             // UCX took it: the peer may know where the bytes are
  bool answered = false;                         // by the peer
  std::optional<Result<std::uint64_t>> outcome;  // the first one counts
};

// Whether the peer may be reading the bytes of a push that is over here.
inline bool is_lent(const UcxPush& push, KvMemory memory) {
  return memory == KvMemory::kDevice && push.sent && !push.answered;
}

class UcxConnection {
 public:
  using Finished = std::vector<std::unique_ptr<UcxPush>>;

  UcxConnection(const UcxWorker& worker, const UcxConfig& config, KvPeer peer, KvMemory memory);
  ~UcxConnection();
  UcxConnection(const UcxConnection&) = delete;
  UcxConnection& operator=(const UcxConnection&) = delete;

  const KvPeer& peer() const { return peer_; }
  void enqueue(std::unique_ptr<UcxPush> push);
  bool acknowledge(const kv_wire::Ack& ack);  // false: none of ours
  void abandon(const Error& why);             // every push fails, the endpoint closes
  void step(Clock::time_point now, Finished& finished);
  void end_loans(Clock::time_point now, Finished& finished);  // those that are over by now
  bool has_finished() const { return !finished_.empty(); }
  bool idle() const {
    return posted_.empty() && waiting_.empty() && finished_.empty() && left_.empty() && lent_.empty() &&
           endpoint_ == nullptr;
  }
  bool drained() const;  // closed, and UCX holds nothing of any push
  void release_endpoint() { endpoint_.reset(); }
  const std::string& transport_name() const {
    return transport_name_;
  }  // empty before the first acknowledgement

 private:
  void post_waiting();
  void post(UcxPush& push);
  void fail_waiting(const Error& why);
  void check_deadlines(Clock::time_point now);
  void leave_stuck(Clock::time_point now);
  void hand_back(std::unique_ptr<UcxPush> push);
  void learn_transport();

  const UcxWorker& worker_;
  const UcxConfig& config_;
  KvPeer peer_;
  const KvMemory memory_;  // of every push
  std::unique_ptr<UcxEndpoint> endpoint_;
  std::deque<std::unique_ptr<UcxPush>> waiting_;
  std::vector<std::unique_ptr<UcxPush>>
      posted_;                                  // at most max_in_flight, plus those that a close is draining
  std::vector<std::unique_ptr<UcxPush>> left_;  // what UCX still points to, see leave_stuck
  std::vector<std::unique_ptr<UcxPush>> lent_;  // over, but for their deadlines: see kv_loan.h
  Finished finished_;
  Clock::time_point next_deadline_check_{};
  std::optional<Clock::time_point> closing_since_;
  std::string transport_name_;
};

}  // namespace lynx
