// The other process of the KV fault tests: a receiver or a sender that runs until it is killed.
//
//   kv_peer receive TRANSPORT INCARNATION RECEIVE_TIMEOUT_MS
//                                                    prints "ready ADDRESS LEASE GENERATION KEY FIRST_BLOCK",
//                                                    then answers each line on stdin with "BEGUN ENDED
//                                                    LANDED_BYTES"
//   kv_peer send TRANSPORT INCARNATION ADDRESS LEASE GENERATION KEY FIRST_BLOCK
//                                                    pushes without end; answers each line on stdin with "OK
//                                                    FAILED"
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/core/log.h"
#include "tests/fault/kv_fault.h"

namespace lynx {
namespace {

using testing_kv::Outcomes;

// True when a line came; exits when the parent is gone.
bool asked() {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  if (poll(&in, 1, 0) <= 0) return false;
  char buffer[64];
  if (read(STDIN_FILENO, buffer, sizeof(buffer)) <= 0) _exit(0);
  return true;
}

void receive(const std::string& transport, std::uint64_t incarnation,
             std::chrono::milliseconds receive_timeout) {
  const SteadyClock clock;
  const PageLayout layout = fault::layout();
  testing_kv::PoolSink sink(layout, clock);
  UcxTransport decode(fault::config(transport, receive_timeout), clock,
                      KvReceiver{&sink, layout, incarnation});
  const auto lease = sink.ledger.lease(1, layout.blocks, layout.blocks, clock.now() + std::chrono::hours(1));
  std::printf("ready %s %s\n", fault::to_hex(decode.address()).c_str(), fault::to_text(*lease).c_str());
  std::fflush(stdout);
  while (true) {
    decode.progress();
    if (!asked()) continue;
    std::printf("%zu %zu %llu\n", sink.begun, sink.ended, static_cast<unsigned long long>(sink.landed));
    std::fflush(stdout);
  }
}

void send(const std::string& transport, const KvPeer& peer, const LeaseTicket& lease) {
  const SteadyClock clock;
  UcxTransport prefill(fault::config(transport), clock);
  const auto bytes = testing_kv::random_bytes(fault::kRunBlocks * fault::layout().block_bytes(), 1);
  Outcomes outcomes;
  std::size_t pushed = 0;
  while (true) {
    while (pushed - outcomes.total() < 8) {
      prefill.push(fault::push_to(peer, lease, bytes, clock.now() + kPatience), outcomes.recorder());
      ++pushed;
    }
    prefill.progress();
    if (!asked()) continue;
    std::printf("%zu %zu\n", outcomes.ok, outcomes.failed);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace lynx

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  lynx::init_logging("kv_peer", "warn");
  if (args.size() == 4 && args[0] == "receive") {
    lynx::receive(args[1], std::stoull(args[2]), std::chrono::milliseconds(std::stoull(args[3])));
  } else if (args.size() == 7 && args[0] == "send") {
    lynx::send(args[1], {"decode-0", std::stoull(args[2]), lynx::fault::from_hex(args[3])},
               {std::stoull(args[4]), static_cast<std::uint32_t>(std::stoul(args[5])), std::stoull(args[6])});
  }
  std::fprintf(stderr, "usage: see the head of tests/fault/kv_peer.cc\n");
  return 2;
}
