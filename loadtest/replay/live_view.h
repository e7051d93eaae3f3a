// A run as it goes, on a terminal: redrawn in place, or one line at a time where there is no terminal. Pure,
// but for the painter.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "loadtest/replay/live_stats.h"
#include "loadtest/replay/load_driver.h"
#include "loadtest/replay/worker_series.h"

namespace lynx {

struct LiveFrame {
  std::string target{};
  LoadDriver::Progress progress{};
  double planned_s = 0;  // when the last request is due
  double warm_up_s = 0;
  LiveStats::Recent recent{};
  std::vector<double> tokens_per_s{}, in_flight{};  // one per frame so far, oldest first
  FleetCurves fleet{};
  std::vector<WorkerCurves> workers{};
};

// A dozen lines of at most `width` columns.
std::vector<std::string> live_lines(const LiveFrame& frame, std::size_t width);
std::string progress_line(const LiveFrame& frame);

// The last `width` values as bars of eight heights; the highest is the tallest.
std::string sparkline(const std::vector<double>& values, std::size_t width);

// Draws frames over each other with ANSI cursor movements.
class LivePainter {
 public:
  explicit LivePainter(std::FILE* terminal) : terminal_(terminal) {}
  void paint(const std::vector<std::string>& lines);

 private:
  std::FILE* terminal_;
  std::size_t painted_ = 0;  // lines that stand above the cursor
};

}  // namespace lynx
