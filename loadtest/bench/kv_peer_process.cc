#include "loadtest/bench/kv_peer_process.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace lynx {

using namespace std::chrono_literals;

UcxConfig bench_ucx_config(const std::string& transport) {
  UcxConfig config;
  config.transport = transport;
  config.require_transport = transport;
  if (transport == "tcp") config.net_devices = "lo";
  return config;
}

BenchSink::BenchSink(const PageLayout& layout, const Clock& clock, std::byte* pool, Landed landed)
    : layout_(layout), clock_(clock), ledger_(layout.blocks, 1), pool_(pool), landed_(std::move(landed)) {}

LeaseTicket BenchSink::lease_all() {
  return *ledger_.lease(1, layout_.blocks, layout_.blocks, Clock::time_point::max());
}

Result<std::span<std::byte>> BenchSink::write_begin(const KvPushHeader& header) {
  if (Status ok = ledger_.begin_write(header.lease, header.first_block, header.blocks, clock_.now()); !ok)
    return ok.error();
  return std::span(pool_ + layout_.block_offset(header.layer, header.first_block),
                   header.blocks * layout_.block_bytes());
}

void BenchSink::write_done(const KvPushHeader& header, Result<std::uint64_t> bytes) {
  ledger_.end_write(header.lease.id);
  if (bytes.ok() && landed_) landed_(header);
}

void print_target(const std::string& address, const LeaseTicket& lease) {
  for (const char c : address) std::printf("%02x", static_cast<unsigned char>(c));
  std::printf(" %llu %u %llu\n", static_cast<unsigned long long>(lease.id), lease.generation,
              static_cast<unsigned long long>(lease.key));
  std::fflush(stdout);
}

BenchTarget read_target(const std::string& line) {
  BenchTarget target;
  std::istringstream in(line);
  std::string hex;
  if (!(in >> hex >> target.lease.id >> target.lease.generation >> target.lease.key))
    throw std::runtime_error("the receiving process does not start");
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    target.peer.address += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  target.peer.worker = "bench";
  target.peer.incarnation = kBenchIncarnation;
  return target;
}

void turn(UcxTransport& transport) {
  if (transport.progress() > 0 || !transport.arm()) return;
  pollfd event{transport.event_fd(), POLLIN, 0};
  poll(&event, 1, 10);
}

void receive_until_stdin_closes(UcxTransport& transport, const Clock& clock) {
  auto next_look = clock.now();
  while (true) {
    turn(transport);
    if (clock.now() < next_look) continue;
    next_look = clock.now() + 50ms;
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (poll(&in, 1, 0) > 0) return;  // the parent has closed it
  }
}

}  // namespace lynx
