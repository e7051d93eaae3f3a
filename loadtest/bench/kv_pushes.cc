#include "loadtest/bench/kv_pushes.h"

#include <optional>
#include <stdexcept>
#include <vector>

#include "loadtest/bench/child_process.h"
#include "loadtest/bench/kv_peer_process.h"

namespace lynx {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kInFlight = 32;

PageLayout bench_layout() {
  return {
      .layers = 1, .blocks = 256, .block_tokens = 16, .kv_heads = 4, .head_dim = 128, .dtype = KvDtype::kF32};
}

}  // namespace

double kv_push_rate(const std::string& transport, std::size_t push_bytes, std::chrono::milliseconds time) {
  ChildProcess receiver({"/proc/self/exe", "kv", "--receive", transport});
  const BenchTarget target = read_target(receiver.read_line(10s).value_or(""));
  const PageLayout layout = bench_layout();
  const SteadyClock clock;
  UcxTransport prefill(bench_ucx_config(transport), clock);
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
  std::vector<std::byte> pool(layout.pool_bytes());
  BenchSink sink(layout, clock, pool.data());
  UcxTransport decode(bench_ucx_config(transport), clock, KvReceiver{&sink, layout, kBenchIncarnation});
  print_target(decode.address(), sink.lease_all());
  receive_until_stdin_closes(decode, clock);
}

}  // namespace lynx
