#include "loadtest/replay/replay_runner.h"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace lynx {
namespace {

constexpr std::size_t kTerminalColumns = 110;

RunView view(const std::string& name, const Replay& replay, Report report) {
  RunView out{.name = name,
              .report = std::move(report),
              .outcomes = replay.outcomes(),
              .timeline = {},
              .fleet = fleet_curves(replay.workers()),
              .workers = worker_curves(replay.workers())};
  out.timeline = make_timeline(out.outcomes, out.report.facts.slos, out.report.facts.duration_s);
  return out;
}

}  // namespace

std::vector<Result<RunView>> ReplayRunner::run(const ReplayPlan& plan,
                                               const std::vector<ReplayConfig::Side>& sides) {
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

std::unique_ptr<Replay> ReplayRunner::make(EventLoop& loop, ReplayPlan plan, const ReplayConfig::Side& side,
                                           std::size_t index, const std::vector<bool>& ready) {
  plan.target = side.target;
  plan.metrics = side.metrics;
  return std::make_unique<Replay>(
      loop, clock_, std::move(plan), writer_, [this, index, &ready](const LiveFrame& frame) {
        if (std::find(ready.begin(), ready.end(), true) - ready.begin() == static_cast<std::ptrdiff_t>(index))
          show(frame);
      });
}

void ReplayRunner::show(const LiveFrame& frame) {
  if (live_)
    painter_.paint(live_lines(frame, kTerminalColumns));
  else
    std::fprintf(stderr, "%s\n", progress_line(frame).c_str());
}

}  // namespace lynx
