#include "loadtest/bench/kv_pushes.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "common/transport/ucx_transport.h"
#include "loadtest/bench/child_process.h"

namespace lynx {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kIncarnation = 1;
constexpr std::size_t kInFlight = 32;

PageLayout bench_layout() {
  return {
      .layers = 1, .blocks = 256, .block_tokens = 16, .kv_heads = 4, .head_dim = 128, .dtype = KvDtype::kF32};
}

UcxConfig bench_config(const std::string& transport) {
  UcxConfig config;
  config.transport = transport;
  config.require_transport = transport;
  if (transport == "tcp") config.net_devices = "lo";
  return config;
}

// A decode worker's receiving side without the decode worker.
class BenchSink final : public KvSink {
 public:
  BenchSink(const PageLayout& layout, const Clock& clock)
      : layout_(layout), clock_(clock), ledger_(layout.blocks, 1), pool_(layout.pool_bytes()) {}

  LeaseTicket lease_all() {
    return *ledger_.lease(1, layout_.blocks, layout_.blocks, Clock::time_point::max());
  }

  Result<std::span<std::byte>> write_begin(const KvPushHeader& header) override {
    if (Status ok = ledger_.begin_write(header.lease, header.first_block, header.blocks, clock_.now()); !ok)
      return ok.error();
    return std::span(pool_).subspan(layout_.block_offset(header.layer, header.first_block),
                                    header.blocks * layout_.block_bytes());
  }
  void write_done(const KvPushHeader& header, Result<std::uint64_t>) override {
    ledger_.end_write(header.lease.id);
  }

 private:
  PageLayout layout_;
  const Clock& clock_;
  KvLedger ledger_;
  std::vector<std::byte> pool_;
};

// One turn of a service's IO thread: handle what there is, then sleep until more comes.
void turn(UcxTransport& transport) {
  if (transport.progress() > 0 || !transport.arm()) return;
  pollfd event{transport.event_fd(), POLLIN, 0};
  poll(&event, 1, 10);
}

struct Target {
  KvPeer peer;
  LeaseTicket lease;
};

void print_target(const std::string& address, const LeaseTicket& lease) {
  for (const char c : address) std::printf("%02x", static_cast<unsigned char>(c));
  std::printf(" %llu %u %llu\n", static_cast<unsigned long long>(lease.id), lease.generation,
              static_cast<unsigned long long>(lease.key));
  std::fflush(stdout);
}

Target read_target(const std::string& line) {
  Target target;
  std::istringstream in(line);
  std::string hex;
  if (!(in >> hex >> target.lease.id >> target.lease.generation >> target.lease.key))
    throw std::runtime_error("the receiving process does not start");
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    target.peer.address += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  target.peer.worker = "bench";
  target.peer.incarnation = kIncarnation;
  return target;
}

}  // namespace

double kv_push_rate(const std::string& transport, std::size_t push_bytes, std::chrono::milliseconds time) {
  ChildProcess receiver({"/proc/self/exe", "kv", "--receive", transport});
  const Target target = read_target(receiver.read_line(10s).value_or(""));
  const PageLayout layout = bench_layout();
  const SteadyClock clock;
  UcxTransport prefill(bench_config(transport), clock);
  const std::vector<std::byte> bytes(push_bytes, std::byte{1});
  const auto blocks = static_cast<std::uint32_t>(push_bytes / layout.block_bytes());

  std::size_t in_flight = 0;
  std::uint64_t acknowledged = 0;
  std::optional<Error> failed;
  const auto push_until = [&](Clock::time_point end) {
    while (!failed && clock.now() < end) {
      for (; in_flight < kInFlight; ++in_flight) {
        prefill.push(
            {target.peer, {target.lease, layout.fingerprint(), 0, 0, blocks, std::nullopt}, bytes, end + 10s},
            [&](Result<std::uint64_t> result) {
              --in_flight;
              if (result.ok()) {
                acknowledged += *result;
              } else {
                failed = result.error();
              }
            });
      }
      turn(prefill);
    }
  };
  push_until(clock.now() + time / 5);  // connects and warms up
  const auto start = clock.now();
  const std::uint64_t before = acknowledged;
  push_until(start + time);
  if (failed) throw std::runtime_error("KV push: " + failed->message);
  return static_cast<double>(acknowledged - before) / seconds(clock.now() - start);
}

void receive_kv_pushes(const std::string& transport) {
  const SteadyClock clock;
  const PageLayout layout = bench_layout();
  BenchSink sink(layout, clock);
  UcxTransport decode(bench_config(transport), clock, KvReceiver{&sink, layout, kIncarnation});
  print_target(decode.address(), sink.lease_all());
  auto next_look = clock.now();
  while (true) {
    turn(decode);
    if (clock.now() < next_look) continue;
    next_look = clock.now() + 50ms;
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (poll(&in, 1, 0) > 0) return;  // the parent has closed it
  }
}

}  // namespace lynx
