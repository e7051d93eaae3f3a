#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>

#include "common/config/field_checks.h"
#include "common/core/read_file.h"
#include "common/text/tokenizer.h"
#include "loadtest/replay/commands.h"
#include "loadtest/replay/html_report.h"
#include "loadtest/replay/passages.h"
#include "loadtest/replay/replay_runner.h"
#include "loadtest/replay/topics.h"

namespace lynx {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char out[32];
  std::strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return out;
}

ReplayPlan make_plan(const ReplayConfig& config, const Trace& trace) {
  ReplayPlan plan{.target = {},
                  .metrics = {},
                  .driver = {.model = config.model,
                             .api_key = {},
                             .temperature = config.temperature,
                             .ignore_eos = config.ignore_eos,
                             .receipts = config.receipts,
                             .timeout = config.timeout,
                             .warm_up = config.warm_up},
                  .ready_timeout = config.ready_timeout,
                  .progress = config.progress,
                  .sample = config.sample,
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
                            .warm_up_s = std::chrono::duration<double>(config.warm_up).count(),
                            .metrics_problems = {}}};
  if (const char* key = std::getenv("LYNX_API_KEY")) plan.driver.api_key = key;
  plan.workload = value_or_throw_in("--", plan_workload(trace, plan.facts.options, plan.facts.slos));
  plan.facts.length_factor = plan.workload.length_factor;
  if (plan.workload.requests.back().at < config.warm_up)
    throw ConfigError("--warm-up: no request is due after it");
  return plan;
}

// What is wrong with a file is told with the option that names it.
template <typename Read>
auto read_of(const std::string& option, Read read) {
  try {
    return read();
  } catch (const std::exception& e) {
    throw ConfigError(option + ": " + e.what());
  }
}

PromptWriter make_writer(const ReplayConfig& config) {
  const Tokenizer tokenizer = read_of("--tokenizer", [&] { return Tokenizer::from_file(config.tokenizer); });
  const auto count = [&](std::string_view text) {
    return tokenizer.encode(text, /*allow_special=*/false).size();
  };
  if (!config.topics.empty() && !config.text.empty()) throw ConfigError("--topics: not together with --text");
  if (!config.topics.empty())
    return {read_of("--topics", [&] { return read_topics(config.topics); }), config.topic_tokens, count};
  if (config.text.empty()) return {default_passages(), count};
  const std::string own = read_of("--text", [&] { return read_file(config.text); });
  return {std::string_view(own), count};
}

void announce(std::FILE* to, const ReplayPlan& plan) {
  std::uint64_t input = 0, output = 0;
  for (const PlannedRequest& request : plan.workload.requests) {
    input += request.input_tokens;
    output += request.output_tokens;
  }
  std::fprintf(to, "replay of %s: %zu requests over %.1f s, %llu tokens in, %llu out\n",
               plan.facts.trace_name.c_str(), plan.workload.requests.size(),
               std::chrono::duration<double>(plan.workload.requests.back().at).count(),
               static_cast<unsigned long long>(input), static_cast<unsigned long long>(output));
  for (const auto& row : plan.facts.rejected.first)
    std::fprintf(to, "%s:%zu: rejected: %s\n", plan.facts.trace_name.c_str(), row.line, row.reason.c_str());
  if (plan.facts.rejected.count > plan.facts.rejected.first.size())
    std::fprintf(to, "... and %zu rejected rows more\n",
                 plan.facts.rejected.count - plan.facts.rejected.first.size());
}

// Of two servers each result has its name, even where only one came to a result.
void write_results(const ReplayConfig& config, const std::vector<RunView>& runs,
                   const Comparison* comparison) {
  if (!config.result.empty())
    for (const RunView& run : runs)
      write_report(config.result_path({.name = run.name}), result_json(run, config.save_requests));
  if (!config.html.empty()) write_report(config.html, html_report(runs, comparison));
  if (!config.markdown.empty()) write_report(config.markdown, markdown_report(runs, comparison));
}

}  // namespace

int replay_command(const ReplayConfig& config) {
  const std::vector<ReplayConfig::Side> sides = config.sides();
  const bool together = config.together();
  config.check_files();
  const Trace trace = config.load_trace();
  const PromptWriter writer = make_writer(config);
  const ReplayPlan plan = make_plan(config, trace);
  ReplayRunner runner(writer, config.draw_live());
  if (config.check) {
    announce(stdout, plan);
    return kSomeSucceeded;
  }
  announce(stderr, plan);

  std::vector<RunView> runs;
  bool cut_short = false;
  const std::size_t at_once = together ? sides.size() : 1;
  while (runs.size() < sides.size() && (runs.empty() || !runs.back().report.facts.interrupted)) {
    const auto next = sides.begin() + static_cast<std::ptrdiff_t>(runs.size());
    for (auto& done : runner.run(plan, {next, next + static_cast<std::ptrdiff_t>(at_once)})) {
      if (done) {
        runs.push_back(std::move(*done));
        continue;
      }
      std::fprintf(stderr, "lynx-replay: %s\n", done.error().message.c_str());
      cut_short = true;  // what the other server gave took its time: it is written all the same
    }
    if (cut_short) break;
  }
  if (runs.empty()) return kNoneSucceeded;
  for (const RunView& run : runs) std::cout << report_text(run.report) << "\n";

  std::optional<Comparison> comparison;
  bool interrupted = false;
  std::size_t completed = 0;
  for (const RunView& run : runs) {
    interrupted = interrupted || run.report.facts.interrupted;
    completed += run.report.completed;
  }
  if (runs.size() == 2 && !interrupted) {
    auto compared = compare(runs[0], runs[1], {.seed = config.seed});
    if (!compared) throw std::runtime_error(compared.error().message);
    comparison = std::move(*compared);
    std::cout << comparison_text(*comparison);
  }
  std::cout << std::flush;
  write_results(config, runs, comparison ? &*comparison : nullptr);
  if (interrupted) return kInterrupted;
  return completed > 0 && !cut_short ? kSomeSucceeded : kNoneSucceeded;
}

}  // namespace lynx
