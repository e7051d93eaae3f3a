#include <CLI/CLI.hpp>
#include <memory>

#include "loadtest/bench/loopback.h"
#include "loadtest/bench/router_load.h"
#include "loadtest/bench/subcommands.h"

namespace lynx {
namespace {

constexpr std::size_t kChunkBytes = 230;  // of one streamed token: the event and its chunk framing

struct RouterFlags {
  RouterLoadOptions load;
  double half_load = 25'000;
};

void check_all_ended_well(const RouterLoadResult& result) {
  if (result.failed > 0)
    throw std::runtime_error(std::to_string(result.failed) + " streams did not end well");
}

BenchRow throughput(const RouterFlags& flags) {
  RouterLoadOptions load = flags.load;
  load.tokens_per_second = 0;
  const auto result = run_router_load(load);
  check_all_ended_well(result);
  return {.name = "router.throughput",
          .unit = "tokens/s",
          .value = result.tokens_per_second,
          .ceiling = loopback_writes_per_core_second(kChunkBytes, load.streams),
          .ceiling_is = "one core writing each token's bytes to loopback, a system call each",
          .target = "value >= 50000",
          .details = {{"router_cpu_share", result.router_cpu_share},
                      {"tokens_per_core_second", result.tokens_per_second / result.router_cpu_share},
                      {"streams", static_cast<double>(load.streams)},
                      {"p99_ms", result.percentile(99) * 1e3}}};
}

BenchRow latency(const RouterFlags& flags) {
  RouterLoadOptions load = flags.load;
  load.tokens_per_second = flags.half_load;
  const auto result = run_router_load(load);
  check_all_ended_well(result);
  const auto batch = load.streams / load.decode_workers;
  const std::chrono::microseconds period(
      static_cast<std::int64_t>(1e6 * static_cast<double>(batch) / flags.half_load));
  const auto echoed = loopback_echo_seconds(kChunkBytes, batch, period, load.measured);
  const double floor = echoed.empty() ? 0 : echoed[(echoed.size() - 1) * 99 / 100];
  return {.name = "router.added_p99",
          .unit = "ms",
          .value = result.percentile(99) * 1e3,
          .ceiling = floor * 1e3,
          .ceiling_is = "p99 of the same bytes echoed over loopback by a thread that does nothing else",
          .target = "value <= 1",
          .details = {{"tokens_per_second", result.tokens_per_second},
                      {"router_cpu_share", result.router_cpu_share},
                      {"p50_ms", result.percentile(50) * 1e3},
                      {"p90_ms", result.percentile(90) * 1e3},
                      {"max_ms", result.percentile(100) * 1e3},
                      {"echo_p50_ms", echoed.empty() ? 0 : echoed[echoed.size() / 2] * 1e3}}};
}

}  // namespace

Subcommand add_router(CLI::App& app) {
  const auto flags = std::make_shared<RouterFlags>();
  CLI::App* parser = app.add_subcommand("router", "tokens streamed through the router from stub workers");
  parser->add_option("--streams", flags->load.streams, "streams at any time")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  parser->add_option("--decode-workers", flags->load.decode_workers, "stub decode workers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  parser->add_option("--tokens", flags->load.tokens_per_stream, "tokens per stream")
      ->check(CLI::Range(2, 2000))
      ->capture_default_str();
  parser->add_option("--half-load", flags->half_load, "tokens/s at which latency is measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return {parser, [flags] { return std::vector<BenchRow>{throughput(*flags), latency(*flags)}; }};
}

}  // namespace lynx
