// Charts as inline SVG: lines over a shared axis, drawn by hand so that a report is one file. Colours are
// classes (s0, s1, ...; see html_style.h): a page's dark mode and its print decide what they are. Second runs
// are dashed, so that two of them tell apart without colour. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lynx {

enum class Stroke { kSolid, kDashed, kSteps, kBars };

struct Curve {
  std::string name{};
  std::vector<double> x{}, y{};  // of one length; NaN in y: a gap
  int colour = 0;
  Stroke stroke = Stroke::kSolid;
};

struct Chart {
  std::string title{};
  std::string x_label{}, y_label{};
  std::vector<Curve> curves{};
  std::vector<std::pair<double, std::string>> marks{};  // horizontal lines: objectives, ceilings
  double y_top = 0;                                     // 0 = as the data ask
  bool log_x = false;
  double shaded_until = 0;  // x from the left to here is set apart: the warm-up
};

// One <figure> with caption, key and <svg>. Text is escaped. A chart without a point says "no data".
std::string svg_figure(const Chart& chart);

// Values to label an axis with: at most about `wanted`, round, covering [low, high].
std::vector<double> axis_ticks(double low, double high, int wanted);

std::string compact(double value);  // 1234567 -> "1.23M"; 0.0042 -> "0.0042"

}  // namespace lynx
