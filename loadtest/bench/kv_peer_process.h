// What the two processes of a KV benchmark share: the receiving one is this program again (kv --receive), a
// decode worker's receiving side without the decode worker.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/kv/kv_ledger.h"
#include "common/transport/ucx_transport.h"

namespace lynx {

inline constexpr std::uint64_t kBenchIncarnation = 1;

UcxConfig bench_ucx_config(const std::string& transport);

class BenchSink final : public KvSink {
 public:
  using Landed = std::function<void(const KvPushHeader&)>;
  BenchSink(const PageLayout& layout, const Clock& clock, std::byte* pool, Landed landed = {});

  LeaseTicket lease_all();
  Result<std::span<std::byte>> write_begin(const KvPushHeader& header) override;
  void write_done(const KvPushHeader& header, Result<std::uint64_t> bytes) override;

 private:
  PageLayout layout_;
  const Clock& clock_;
  KvLedger ledger_;
  std::byte* pool_;
  Landed landed_;
};

struct BenchTarget {
  KvPeer peer;
  LeaseTicket lease;
};

// The receiving process tells where it is on a line of its stdout. read: throws std::runtime_error.
void print_target(const std::string& address, const LeaseTicket& lease);
BenchTarget read_target(const std::string& line);

void turn(UcxTransport& transport);  // one turn of an IO thread: handle, then sleep until more comes
void receive_until_stdin_closes(UcxTransport& transport, const Clock& clock);

}  // namespace lynx
