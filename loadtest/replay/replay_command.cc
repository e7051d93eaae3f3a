#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "common/text/tokenizer.h"
#include "loadtest/replay/commands.h"
#include "loadtest/replay/html_report.h"
#include "loadtest/replay/passages.h"
#include "loadtest/replay/replay.h"
#include "loadtest/replay/topics.h"

namespace lynx {
namespace {

constexpr std::size_t kTerminalColumns = 110;

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
  auto workload = plan_workload(trace, plan.facts.options, plan.facts.slos);
  if (!workload) throw ConfigError(workload.error().message);
  plan.workload = std::move(*workload);
  plan.facts.length_factor = plan.workload.length_factor;
  if (plan.workload.requests.back().at < config.warm_up)
    throw ConfigError("--warm-up: no request is due after it");
  return plan;
}

PromptWriter make_writer(const ReplayConfig& config) {
  const Tokenizer tokenizer = Tokenizer::from_file(config.tokenizer);
  const auto count = [&](std::string_view text) {
    return tokenizer.encode(text, /*allow_special=*/false).size();
  };
  if (!config.topics.empty() && !config.text.empty()) throw ConfigError("--topics: not together with --text");
  if (!config.topics.empty()) return {read_topics(config.topics), config.topic_tokens, count};
  const std::string own = config.text.empty() ? "" : read_file(config.text);
  return {config.text.empty() ? default_passages() : std::string_view(own), count};
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

// One or several replays on one loop, until all have ended.
class Runner {
 public:
  Runner(const ReplayConfig& config, const PromptWriter& writer)
      : writer_(writer), live_(config.draw_live()) {}

  // In the order of `sides`: each one's run, or why it could not begin. None sends before each of the others
  // can send too, or never will.
  std::vector<Result<RunView>> run(const ReplayPlan& plan, const std::vector<ReplayConfig::Side>& sides) {
    EventLoop loop;
    std::vector<std::unique_ptr<Replay>> replays;
    std::vector<std::optional<Result<Report>>> reports(sides.size());
    std::vector<bool> ready(sides.size());
    std::size_t left = sides.size(), awaited = sides.size();
    const auto begin_together = [&] {
      if (--awaited > 0) return;
      for (const auto& replay : replays) replay->begin();
    };
    for (std::size_t i = 0; i < sides.size(); ++i) replays.push_back(make(loop, plan, sides[i], i, ready));
    loop.on_terminate([&] {
      for (const auto& replay : replays) replay->interrupt();
    });
    for (std::size_t i = 0; i < replays.size(); ++i)
      replays[i]->start(
          [&, i] {
            ready[i] = true;
            begin_together();
          },
          [&, i](Result<Report> report) {
            reports[i] = std::move(report);
            if (--left == 0) loop.stop();
            if (!ready[i]) begin_together();
          });
    loop.run();
    std::vector<Result<RunView>> out;
    for (std::size_t i = 0; i < replays.size(); ++i) {
      auto& report = reports[i];
      if (!report)
        out.emplace_back(Error{ErrorCode::kInternal, "the run did not end"});
      else if (!*report)
        out.emplace_back(report->error());
      else
        out.emplace_back(view(sides[i].name, *replays[i], std::move(**report)));
    }
    return out;
  }

 private:
  // `ready`: the sides that run. The first of them is shown.
  std::unique_ptr<Replay> make(EventLoop& loop, ReplayPlan plan, const ReplayConfig::Side& side,
                               std::size_t index, const std::vector<bool>& ready) {
    plan.target = side.target;
    plan.metrics = side.metrics;
    return std::make_unique<Replay>(loop, clock_, std::move(plan), writer_,
                                    [this, index, &ready](const LiveFrame& frame) {
                                      if (std::find(ready.begin(), ready.end(), true) - ready.begin() ==
                                          static_cast<std::ptrdiff_t>(index))
                                        show(frame);
                                    });
  }

  void show(const LiveFrame& frame) {
    if (live_)
      painter_.paint(live_lines(frame, kTerminalColumns));
    else
      std::fprintf(stderr, "%s\n", progress_line(frame).c_str());
  }

  static RunView view(const std::string& name, const Replay& replay, Report report) {
    RunView out{.name = name,
                .report = std::move(report),
                .outcomes = replay.outcomes(),
                .timeline = {},
                .fleet = fleet_curves(replay.workers()),
                .workers = worker_curves(replay.workers())};
    out.timeline = make_timeline(out.outcomes, out.report.facts.slos, out.report.facts.duration_s);
    return out;
  }

  const PromptWriter& writer_;
  const bool live_;
  SteadyClock clock_;
  LivePainter painter_{stderr};
};

// "out.json", "A" -> "out.A.json".
std::string named(const std::string& path, const std::string& name) {
  const std::size_t slash = path.find_last_of('/'), dot = path.find_last_of('.');
  const bool ends = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return path.substr(0, ends ? dot : path.size()) + "." + name + (ends ? path.substr(dot) : "");
}

// Of two servers each result has its name, even where only one came to a result.
void write_results(const ReplayConfig& config, const std::vector<RunView>& runs,
                   const Comparison* comparison) {
  if (!config.result.empty())
    for (const RunView& run : runs)
      write_file(config.against.empty() ? config.result : named(config.result, run.name),
                 result_json(run, config.save_requests));
  if (!config.html.empty()) write_file(config.html, html_report(runs, comparison));
  if (!config.markdown.empty()) write_file(config.markdown, markdown_report(runs, comparison));
}

}  // namespace

int replay_command(const ReplayConfig& config) {
  const std::vector<ReplayConfig::Side> sides = config.sides();
  const bool together = config.together();
  config.check_files();
  const Trace trace = config.load_trace();
  const PromptWriter writer = make_writer(config);
  const ReplayPlan plan = make_plan(config, trace);
  Runner runner(config, writer);
  announce(plan);

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
