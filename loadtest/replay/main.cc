// lynx-replay: replays a request trace against an OpenAI-compatible server and reports what its clients saw.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

#include "common/core/log.h"
#include "common/text/tokenizer.h"
#include "loadtest/replay/passages.h"
#include "loadtest/replay/replay.h"
#include "loadtest/replay/replay_config.h"

namespace {

using namespace lynx;

enum ExitCode { kSomeSucceeded = 0, kNoneSucceeded = 1, kWrongUse = 2, kInterrupted = 130 };

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ConfigError(path + ": cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char out[32];
  std::strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return out;
}

ReplayPlan make_plan(const ReplayConfig& config, const Trace& trace) {
  ReplayPlan plan{.target = config.target_endpoint(),
                  .metrics = config.metrics_endpoints(),
                  .driver = {.model = config.model,
                             .api_key = {},
                             .temperature = config.temperature,
                             .ignore_eos = config.ignore_eos,
                             .timeout = config.timeout},
                  .ready_timeout = config.ready_timeout,
                  .progress = config.progress,
                  .workload = {},
                  .facts = {.date = utc_now(),
                            .model = {},
                            .target = {},
                            .trace_name = trace.name,
                            .trace_format = trace.format,
                            .trace_sha256 = trace.sha256,
                            .trace_rows = trace.requests.size(),
                            .rejected = trace.rejected,
                            .options = config.workload_options(),
                            .slos = config.slo_targets(),
                            .metrics_problems = {}}};
  if (const char* key = std::getenv("LYNX_API_KEY")) plan.driver.api_key = key;
  auto workload = plan_workload(trace, plan.facts.options, plan.facts.slos);
  if (!workload) throw ConfigError(workload.error().message);
  plan.workload = std::move(*workload);
  plan.facts.length_factor = plan.workload.length_factor;
  return plan;
}

PromptWriter make_writer(const ReplayConfig& config) {
  const Tokenizer tokenizer = Tokenizer::from_file(config.tokenizer);
  const std::string own = config.text.empty() ? "" : read_file(config.text);
  return {config.text.empty() ? default_passages() : std::string_view(own),
          [&](std::string_view text) { return tokenizer.encode(text, /*allow_special=*/false).size(); }};
}

void announce(const ReplayPlan& plan) {
  std::uint64_t input = 0, output = 0;
  for (const PlannedRequest& request : plan.workload.requests) {
    input += request.input_tokens;
    output += request.output_tokens;
  }
  std::fprintf(stderr, "replay of %s: %zu requests over %.1f s, %llu tokens in, %llu out\n",
               plan.facts.trace_name.c_str(), plan.workload.requests.size(),
               std::chrono::duration<double>(plan.workload.requests.back().at).count(),
               static_cast<unsigned long long>(input), static_cast<unsigned long long>(output));
  for (const auto& row : plan.facts.rejected.first)
    std::fprintf(stderr, "%s:%zu: rejected: %s\n", plan.facts.trace_name.c_str(), row.line,
                 row.reason.c_str());
  if (plan.facts.rejected.count > plan.facts.rejected.first.size())
    std::fprintf(stderr, "... and %zu rejected rows more\n",
                 plan.facts.rejected.count - plan.facts.rejected.first.size());
}

void write_result(const std::string& path, const std::string& json) {
  std::ofstream out(path, std::ios::binary);
  out << json << std::flush;
  if (!out) throw std::runtime_error(path + ": cannot be written");
  std::fprintf(stderr, "result written to %s\n", path.c_str());
}

int run(const ReplayConfig& config) {
  const Trace trace = config.load_trace();
  const PromptWriter writer = make_writer(config);
  ReplayPlan plan = make_plan(config, trace);
  announce(plan);

  EventLoop loop;
  const SteadyClock clock;
  Replay replay(loop, clock, std::move(plan), writer,
                [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  Result<Report> outcome = Error{ErrorCode::kInternal, "the run did not end"};
  loop.on_terminate([&] { replay.interrupt(); });
  replay.start([&](Result<Report> report) {
    outcome = std::move(report);
    loop.stop();
  });
  loop.run();

  if (!outcome) {
    std::fprintf(stderr, "lynx-replay: %s\n", outcome.error().message.c_str());
    return kNoneSucceeded;
  }
  std::cout << report_text(*outcome) << std::flush;
  if (!config.result.empty())
    write_result(config.result, report_json(*outcome, config.save_requests ? &replay.outcomes() : nullptr));
  if (outcome->facts.interrupted) return kInterrupted;
  return outcome->completed > 0 ? kSomeSucceeded : kNoneSucceeded;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    lynx::init_logging("lynx-replay", "warn");
    ReplayConfig config;
    ConfigFields fields = config.fields();
    const ConfigOutcome outcome = configure(
        argc, argv, "lynx-replay", "Replays a request trace against an OpenAI-compatible server.", fields);
    return outcome == ConfigOutcome::kExit ? 0 : run(config);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lynx-replay: %s\n", e.what());
    return kWrongUse;
  }
}
