// lynx-bench pace: does the load generator keep its own time? Poisson arrivals from one thread on one core,
// against servers that are quick, slow, stalling and silent. An open loop is as late with each of them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <stdexcept>

#include "common/net/http_client.h"
#include "loadtest/bench/stub_api.h"
#include "loadtest/bench/subcommands.h"
#include "loadtest/bench/thread_time.h"
#include "loadtest/replay/load_driver.h"
#include "loadtest/replay/passages.h"
#include "loadtest/replay/report.h"
#include "loadtest/replay/synthesizer.h"

namespace lynx {
namespace {

constexpr int kGeneratorCpu = 0, kServerCpu = 1;

struct PaceFlags {
  double rate = 200;
  double duration_s = 10;
  std::uint32_t input = 256, output = 32;
};

struct Case {
  const char* name;
  StubApiOptions server;
  std::chrono::milliseconds timeout{60'000};
};

Workload workload_of(const PaceFlags& flags, const std::vector<SloTarget>& slos) {
  const LogNormal input{.median = static_cast<double>(flags.input), .sigma = 0.5, .most = 4 * flags.input};
  const LogNormal output{.median = static_cast<double>(flags.output), .sigma = 0.5, .most = 4 * flags.output};
  const auto trace = synthesize({.duration_s = flags.duration_s,
                                 .rate = flags.rate,
                                 .gap_cv = 1,
                                 .burst = 1,
                                 .input = input,
                                 .output = output,
                                 .seed = 1});
  if (!trace) throw std::runtime_error(trace.error().message);
  auto workload = plan_workload(*trace, {.lengths = LengthMode::kKeep}, slos);
  if (!workload) throw std::runtime_error(workload.error().message);
  return std::move(*workload);
}

std::size_t count_words(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, ' '));
}

BenchRow measure(const PaceFlags& flags, const Case& one) {
  const std::vector<SloTarget> slos{{.name = "standard", .share = 1}};
  const Workload workload = workload_of(flags, slos);
  const PromptWriter writer(default_passages(), count_words);
  StubApi server(one.server);
  EventLoop loop;
  HttpClient client(loop, "127.0.0.1", server.port());
  const SteadyClock clock;
  LoadDriver driver(loop, client, clock, {.model = "stub", .api_key = {}, .timeout = one.timeout}, workload,
                    slos, writer);
  const double cpu_before = thread_cpu_seconds();
  driver.start([&] { loop.stop(); });
  loop.run();
  const double cpu = thread_cpu_seconds() - cpu_before;

  RunFacts facts;
  facts.slos = slos;
  facts.duration_s = seconds(driver.progress().elapsed);
  const Report report = make_report(facts, driver.outcomes(), {});
  BenchRow row{.name = std::string("pace.") + one.name,
               .unit = "ms late, p99",
               .value = report.lateness_ms.p99,
               .ceiling = 1e3 / flags.rate,
               .ceiling_is = "the mean time between two requests",
               .target = "<= 1",
               .details = {}};
  row.details = {
      {"p50_ms", report.lateness_ms.p50},
      {"max_ms", report.lateness_ms.max},
      {"requests", static_cast<double>(report.requests)},
      {"completed", static_cast<double>(report.completed)},
      {"peak_in_flight", static_cast<double>(report.peak_concurrency)},
      {"offered_per_s", report.offered.requests_per_s},
      {"cpu_ms_per_request", 1e3 * cpu / static_cast<double>(std::max<std::size_t>(report.requests, 1))}};
  return row;
}

std::vector<BenchRow> run_pace(const PaceFlags& flags) {
  if (!pin_to_cpu(kGeneratorCpu))
    std::fprintf(stderr, "lynx-bench pace: the generator could not be kept on one CPU\n");
  using std::chrono::milliseconds;
  StubApiOptions quick{.cpu = kServerCpu}, slow = quick, stalling = quick, silent = quick;
  slow.first_token = milliseconds(2000);
  slow.step_time = milliseconds(50);
  stalling.stall = milliseconds(500);
  silent.silent = true;
  // The silent server's requests end by their own timeout.
  const Case cases[] = {
      {"quick", quick}, {"slow", slow}, {"stalling", stalling}, {"silent", silent, milliseconds(3000)}};
  std::vector<BenchRow> rows;
  for (const Case& one : cases) rows.push_back(measure(flags, one));
  return rows;
}

}  // namespace

Subcommand add_pace(CLI::App& app) {
  auto* parser =
      app.add_subcommand("pace", "How late the load generator sends, against servers good and bad");
  const auto flags = std::make_shared<PaceFlags>();
  parser->add_option("--rate", flags->rate, "requests per second")
      ->check(CLI::Range(1.0, 5000.0))
      ->capture_default_str();
  parser->add_option("--duration", flags->duration_s, "seconds for each server")
      ->check(CLI::Range(0.5, 600.0))
      ->capture_default_str();
  parser->add_option("--input", flags->input, "median tokens of a prompt")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  parser->add_option("--output", flags->output, "median tokens of an answer")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  return {parser, [flags] { return run_pace(*flags); }};
}

}  // namespace lynx
