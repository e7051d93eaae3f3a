#include "loadtest/quality/pareto_plot.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "loadtest/replay/html_text.h"

namespace lynx {
namespace {

constexpr double kWidth = 590, kHeight = 400, kLeft = 70, kRight = 160, kTop = 36, kBottom = 48;
constexpr std::array kColours{"#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#bf3989",
                              "#57606a", "#0a7ea4", "#8c959f", "#e16f24", "#5a32a3", "#116329"};

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

struct Axis {
  double low = 0, high = 1;
  double at, length;  // of the first pixel; may run backwards
  double operator()(double v) const { return at + (v - low) / (high - low) * length; }
};

using Curves = std::map<std::string, std::vector<const Cell*>>;

Curves curves_of(const Results& results, std::uint32_t batch) {
  Curves curves;
  for (const Cell& c : results.cells)
    if (c.batch == batch && c.mix == "mixed") curves[c.policy].push_back(&c);
  for (auto& [policy, cells] : curves)
    std::sort(cells.begin(), cells.end(),
              [](const Cell* a, const Cell* b) { return a->activated.mean() < b->activated.mean(); });
  return curves;
}

std::string axes(const Axis& x, const Axis& y, std::uint32_t batch) {
  std::string out =
      text("<text x=\"%.0f\" y=\"22\" font-size=\"15\" font-weight=\"600\">B = %u</text>\n", kLeft, batch);
  constexpr int kTicks = 5;
  for (int i = 0; i <= kTicks; ++i) {
    const double vx = x.low + (x.high - x.low) * i / kTicks, vy = y.low + (y.high - y.low) * i / kTicks;
    out += text("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e6ebf0\"/>\n", x(vx),
                y(y.low), x(vx), y(y.high));
    out += text("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e6ebf0\"/>\n", x(x.low),
                y(vy), x(x.high), y(vy));
    out += text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.1f</text>\n", x(vx), y(y.low) + 16, vx);
    out += text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.3f</text>\n", x(x.low) - 6, y(vy) + 4, vy);
  }
  out += text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">experts read per layer and step</text>\n",
              (x(x.low) + x(x.high)) / 2, kHeight - 10);
  out += text(
      "<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">loss change, nats per "
      "token</text>\n",
      (y(y.low) + y(y.high)) / 2);
  return out;
}

std::string curve(const std::vector<const Cell*>& cells, const Axis& x, const Axis& y, const char* colour) {
  std::string points, marks;
  for (const Cell* c : cells) {
    const double cx = x(c->activated.mean()), cy = y(c->loss_change.mean());
    points += text("%.1f,%.1f ", cx, cy);
    marks += text("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>", cx,
                  y(c->loss_change.mean() - c->loss_change.error()), cx,
                  y(c->loss_change.mean() + c->loss_change.error()), colour);
    marks += text("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" stroke=\"%s\" fill=\"%s\"><title>", cx, cy, colour,
                  c->is_default ? colour : "#fff");
    marks += escape_html(c->label) +
             text(": %.2f experts, %.4f</title></circle>\n", c->activated.mean(), c->loss_change.mean());
  }
  return "<polyline fill=\"none\" stroke=\"" + std::string(colour) + "\" stroke-width=\"1.6\" points=\"" +
         points + "\"/>\n" + marks;
}

}  // namespace

std::string pareto_plot(const Results& results, std::uint32_t batch) {
  const Curves curves = curves_of(results, batch);
  double least = 1e9, most = 0, highest = 1e-6;
  for (const auto& [policy, cells] : curves)
    for (const Cell* c : cells) {
      least = std::min(least, c->activated.mean());
      most = std::max(most, c->activated.mean());
      highest = std::max(highest, c->loss_change.mean() + c->loss_change.error());
    }
  if (curves.empty()) return "";
  const double margin = std::max(0.5, 0.05 * (most - least));
  const Axis x{.low = std::max(0.0, least - margin),
               .high = most + margin,
               .at = kLeft,
               .length = kWidth - kLeft - kRight};
  const Axis y{.low = -0.05 * highest,
               .high = 1.05 * highest,
               .at = kHeight - kBottom,
               .length = kTop + kBottom - kHeight};
  std::string out = text(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-size=\"11\" "
      "font-family=\"system-ui,sans-serif\">\n",
      kWidth, kHeight);
  out += axes(x, y, batch);
  std::size_t i = 0;
  for (const auto& [policy, cells] : curves) {
    const char* colour = kColours[i % kColours.size()];
    out += curve(cells, x, y, colour);
    const double line = kTop + 14 + 18 * static_cast<double>(i++);
    out += text("<rect x=\"%.0f\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>", kWidth - kRight + 14,
                line - 6, colour);
    out +=
        text("<text x=\"%.0f\" y=\"%.1f\">", kWidth - kRight + 32, line) + escape_html(policy) + "</text>\n";
  }
  return out + "</svg>\n";
}

}  // namespace lynx
