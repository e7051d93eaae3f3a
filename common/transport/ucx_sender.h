// All connections that this process pushes over.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "common/core/clock.h"
#include "common/transport/ucx_connection.h"

namespace lynx {

class UcxSender {
 public:
  UcxSender(UcxWorker& worker, const UcxConfig& config, const Clock& clock, KvMemory memory);
  UcxSender(const UcxSender&) = delete;
  UcxSender& operator=(const UcxSender&) = delete;

  void push(KvPush push, KvTransport::Done done);
  void forget(const KvPeer& peer);
  std::size_t step(Clock::time_point now);  // calls done() of what is finished; returns how many
  bool has_finished() const;

  void close_all();  // at the end: every push fails, and so does every later one
  bool drained() const;
  void release_endpoints();  // before the worker goes
  std::string transport_name() const { return transport_name_; }

 private:
  using Key = std::tuple<std::string, std::uint64_t, std::string>;
  static ucs_status_t on_ack(void* self, const void* header, std::size_t header_size, void*, std::size_t,
                             const ucp_am_recv_param_t*);
  void acknowledge(std::span<const std::byte> header);

  UcxWorker& worker_;
  const UcxConfig& config_;
  const Clock& clock_;
  const KvMemory memory_;  // of every push
  const std::uint64_t host_;
  std::map<Key, std::unique_ptr<UcxConnection>> connections_;
  UcxConnection::Finished refused_;  // by push() itself
  std::uint64_t next_id_ = 1;
  bool closing_ = false;
  std::string transport_name_;
};

}  // namespace lynx
