// The receiving side: takes pushes from any peer, checks each, has its payload land in the sink's blocks and
// answers it. A payload that stays away closes the connection it should come by, so that its blocks do not
// wait for ever.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>

#include "common/core/clock.h"
#include "common/transport/kv_receiver.h"
#include "common/transport/kv_wire.h"
#include "common/transport/ucx_handles.h"

namespace lynx {

class UcxReceiver {
 public:
  UcxReceiver(UcxWorker& worker, const UcxConfig& config, const Clock& clock, KvReceiver receiver,
              KvMemory memory);
  UcxReceiver(const UcxReceiver&) = delete;
  UcxReceiver& operator=(const UcxReceiver&) = delete;

  void step(Clock::time_point now);
  void close_all();  // at the end: by force, every connection that owes a payload
  bool drained() const { return receives_.empty(); }
  void release_endpoints() { closes_.clear(); }  // before the worker goes
  std::string transport_name() const { return transport_name_; }

 private:
  struct Receive {  // between write_begin and write_done
    UcxReceiver* owner = nullptr;
    kv_wire::Push push;
    std::span<std::byte> place;
    ucp_ep_h reply = nullptr;  // valid as long as the payload is outstanding
    Clock::time_point waits_since;
    std::list<Receive>::iterator self;
  };
  struct Answer {  // an acknowledgement on its way
    UcxReceiver* owner = nullptr;
    kv_wire::Words words;
    std::list<Answer>::iterator self;
  };

  static ucs_status_t on_push(void* self, const void* header, std::size_t header_size, void* data,
                              std::size_t size, const ucp_am_recv_param_t* param);
  static void on_received(void* request, ucs_status_t status, std::size_t size, void* arg);
  static void on_answered(void* request, ucs_status_t status, void* arg);

  void accept(std::span<const std::byte> header, void* data, std::size_t size,
              const ucp_am_recv_param_t& param);
  void receive(Receive& receive, void* descriptor);
  void finish(Receive& receive, ucs_status_t status);
  void answer(ucp_ep_h reply, std::uint64_t push_id, Status verdict);
  void close_overdue(Clock::time_point older_than);

  UcxWorker& worker_;
  const UcxConfig& config_;
  const Clock& clock_;
  KvReceiver receiver_;
  const ucs_memory_type_t memory_;  // of the sink's places
  const std::uint64_t host_;
  std::list<Receive> receives_;
  std::list<Answer> answers_;
  std::map<ucp_ep_h, std::unique_ptr<UcxClose>> closes_;
  Clock::time_point next_check_{};
  std::string transport_name_;
};

}  // namespace lynx
