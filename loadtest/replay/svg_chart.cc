#include "loadtest/replay/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "loadtest/replay/html_text.h"

namespace lynx {
namespace {

constexpr double kWidth = 560, kHeight = 230, kLeft = 52, kRight = 10, kTop = 8, kBottom = 38;

// Data to pixels.
class Frame {
 public:
  explicit Frame(const Chart& chart) : chart_(chart) {
    for (const Curve& curve : chart.curves)
      for (std::size_t i = 0; i < curve.x.size(); ++i) take(curve.x[i], curve.y[i]);
    if (!seen_) return;
    for (const auto& [value, name] : chart.marks)
      if (value <= 2 * y_high_)
        y_high_ = std::max(y_high_, value);  // a far objective must not flatten the data
    if (chart.y_top > 0) y_high_ = chart.y_top;
    if (y_high_ <= 0) y_high_ = 1;
    y_high_ = chart.y_top > 0 ? chart.y_top : axis_ticks(0, y_high_, 4).back();
    if (!chart.log_x) x_low_ = std::min(0.0, x_low_);
    if (x_high_ <= x_low_) x_high_ = x_low_ + 1;
  }

  bool empty() const { return !seen_; }
  double x(double value) const {
    return kLeft +
           (kWidth - kLeft - kRight) * (place(value) - place(x_low_)) / (place(x_high_) - place(x_low_));
  }
  double y(double value) const {
    return kTop + (kHeight - kTop - kBottom) * (1 - std::clamp(value / y_high_, 0.0, 1.0));
  }
  double x_low() const { return x_low_; }
  double x_high() const { return x_high_; }
  double y_high() const { return y_high_; }

 private:
  void take(double x, double y) {
    if (!std::isfinite(x) || !std::isfinite(y) || (chart_.log_x && x <= 0)) return;
    x_low_ = seen_ ? std::min(x_low_, x) : x;
    x_high_ = seen_ ? std::max(x_high_, x) : x;
    y_high_ = seen_ ? std::max(y_high_, y) : y;
    seen_ = true;
  }
  double place(double value) const { return chart_.log_x ? std::log10(value) : value; }

  const Chart& chart_;
  bool seen_ = false;
  double x_low_ = 0, x_high_ = 1, y_high_ = 1;
};

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         escape_html(words) + "</text>";
}

std::string line(const char* kind, double x1, double y1, double x2, double y2) {
  return std::string("<line class=\"") + kind + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) +
         "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\"/>";
}

std::vector<double> decades(double low, double high) {
  std::vector<double> out;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
    for (const double step : {1.0, 2.0, 5.0})
      if (step * power >= low * 0.999 && step * power <= high * 1.001) out.push_back(step * power);
  return out;
}

std::string axes(const Chart& chart, const Frame& frame) {
  std::string out;
  for (const double tick : axis_ticks(0, frame.y_high(), 4)) {
    if (tick > frame.y_high() * 1.001) continue;
    out += line("grid", kLeft, frame.y(tick), kWidth - kRight, frame.y(tick));
    out += text(kLeft - 6, frame.y(tick) + 4, "end", compact(tick));
  }
  const auto ticks =
      chart.log_x ? decades(frame.x_low(), frame.x_high()) : axis_ticks(frame.x_low(), frame.x_high(), 7);
  double last = -1e9;
  for (const double tick : ticks) {
    if (tick < frame.x_low() || tick > frame.x_high() * 1.001 || frame.x(tick) - last < 34) continue;
    last = frame.x(tick);
    out += line("tick", last, kHeight - kBottom, last, kHeight - kBottom + 4);
    out += text(last, kHeight - kBottom + 16, "middle", compact(tick));
  }
  out += text((kLeft + kWidth - kRight) / 2, kHeight - 5, "middle", chart.x_label);
  return out;
}

std::string path_of(const Curve& curve, const Frame& frame, bool log_x) {
  std::string path;
  bool drawing = false;
  double before = 0;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (!std::isfinite(curve.y[i]) || (log_x && curve.x[i] <= 0)) {
      drawing = false;
      continue;
    }
    const std::string x = number(frame.x(curve.x[i])), y = number(frame.y(curve.y[i]));
    if (drawing && curve.stroke == Stroke::kSteps) path += "L" + x + " " + number(before);
    path += (drawing ? "L" : "M") + x + " " + y;
    // A single point between two gaps is still a point.
    if (!drawing && (i + 1 == curve.x.size() || !std::isfinite(curve.y[i + 1]))) path += "h1.5";
    before = frame.y(curve.y[i]);
    drawing = true;
  }
  return path;
}

std::string bars_of(const Curve& curve, const Frame& frame) {
  const double width = curve.x.size() > 1 ? frame.x(curve.x[1]) - frame.x(curve.x[0]) : 8;
  std::string out = "<g class=\"bars s" + std::to_string(curve.colour) + "\">";
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (!(curve.y[i] > 0)) continue;
    out += "<rect x=\"" + number(frame.x(curve.x[i])) + "\" y=\"" + number(frame.y(curve.y[i])) +
           "\" width=\"" + number(std::max(0.5, width - 0.7)) + "\" height=\"" +
           number(frame.y(0) - frame.y(curve.y[i])) + "\"/>";
  }
  return out + "</g>";
}

std::string drawing_of(const Curve& curve, const Frame& frame, bool log_x) {
  if (curve.stroke == Stroke::kBars) return bars_of(curve, frame);
  return "<path class=\"s" + std::to_string(curve.colour) +
         (curve.stroke == Stroke::kDashed ? " dashed" : "") + "\" d=\"" + path_of(curve, frame, log_x) +
         "\"/>";
}

std::string key_of(const Chart& chart) {
  std::string out;
  if (chart.curves.size() < 2 && (chart.curves.empty() || chart.curves[0].name.empty())) return out;
  for (const Curve& curve : chart.curves)
    out += " <span class=\"key s" + std::to_string(curve.colour) +
           (curve.stroke == Stroke::kDashed ? " dashed" : "") + "\">" + escape_html(curve.name) + "</span>";
  return out;
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int wanted) {
  const double span = high > low ? high - low : 1;
  const double rough = span / std::max(wanted, 1);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  // Data from outside may span what no step divides.
  if (!std::isfinite(step) || !(step > 0)) return {low, high};
  std::vector<double> out;
  const double first = std::floor(low / step + 1e-9);
  for (int i = 0; i < 4 * (wanted + 2); ++i) {
    out.push_back((first + i) * step);
    if (out.back() >= high - 1e-9 * span) break;
  }
  return out;
}

std::string compact(double value) {
  const double size = std::abs(value);
  const char* unit = size >= 1e9 ? "G" : size >= 1e6 ? "M" : size >= 1e4 ? "k" : "";
  const double scaled = size >= 1e9   ? value / 1e9
                        : size >= 1e6 ? value / 1e6
                        : size >= 1e4 ? value / 1e3
                                      : value;
  char out[32];
  std::snprintf(out, sizeof out, size >= 1e3 && size < 1e4 ? "%.4g%s" : "%.3g%s", scaled, unit);
  return out;
}

std::string svg_figure(const Chart& chart) {
  const Frame frame(chart);
  std::string out = "<figure><figcaption><b>" + escape_html(chart.title) + "</b>" +
                    (chart.y_label.empty() ? "" : ", " + escape_html(chart.y_label)) + key_of(chart) +
                    "</figcaption>";
  if (frame.empty()) return out + "<p class=\"none\">no data</p></figure>\n";
  out += "<svg viewBox=\"0 0 " + compact(kWidth) + " " + compact(kHeight) + "\" role=\"img\" aria-label=\"" +
         escape_html(chart.title) + "\">";
  if (chart.shaded_until > 0)
    out += "<rect class=\"apart\" x=\"" + number(kLeft) + "\" y=\"" + number(kTop) + "\" width=\"" +
           number(frame.x(std::min(chart.shaded_until, frame.x_high())) - kLeft) + "\" height=\"" +
           number(kHeight - kTop - kBottom) + "\"/>";
  out += axes(chart, frame);
  for (const auto& [value, name] : chart.marks) {
    if (value > frame.y_high()) continue;
    out += line("mark", kLeft, frame.y(value), kWidth - kRight, frame.y(value));
    const bool at_top = frame.y(value) < kTop + 12;  // no room above the line
    out += text(kWidth - kRight - 2, frame.y(value) + (at_top ? 12 : -4), "end", name);
  }
  for (const Curve& curve : chart.curves) out += drawing_of(curve, frame, chart.log_x);
  return out + "</svg></figure>\n";
}

}  // namespace lynx
