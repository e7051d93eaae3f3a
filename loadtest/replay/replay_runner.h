// One or several replays on one loop, until all have ended. Shows one of them as it goes.
#pragma once

#include <memory>
#include <vector>

#include "loadtest/replay/live_view.h"
#include "loadtest/replay/replay.h"
#include "loadtest/replay/replay_config.h"
#include "loadtest/replay/run_view.h"

namespace lynx {

class ReplayRunner {
 public:
  // draw_live: over and over in place, instead of a line at a time. The writer outlives the runner.
  ReplayRunner(const PromptWriter& writer, bool draw_live) : writer_(writer), live_(draw_live) {}

  // In the order of `sides`: each one's run, or why it could not begin. None sends before each of the others
  // can send too, or never will.
  std::vector<Result<RunView>> run(const ReplayPlan& plan, const std::vector<ReplayConfig::Side>& sides);

 private:
  // `ready`: the sides that run. The first of them is shown.
  std::unique_ptr<Replay> make(EventLoop& loop, ReplayPlan plan, const ReplayConfig::Side& side,
                               std::size_t index, const std::vector<bool>& ready);
  void show(const LiveFrame& frame);

  const PromptWriter& writer_;
  const bool live_;
  SteadyClock clock_;
  LivePainter painter_{stderr};
};

}  // namespace lynx
