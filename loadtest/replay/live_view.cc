#include "loadtest/replay/live_view.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>

namespace lynx {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  std::va_list args;
  va_start(args, pattern);
  char buffer[256];
  std::vsnprintf(buffer, sizeof buffer, pattern, args);
  va_end(args);
  return buffer;
}

// Columns, not bytes: continuation bytes of UTF-8 take none.
std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string clipped(std::string line, std::size_t width) {
  while (columns(line) > width) {
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80) line.pop_back();
    line.pop_back();
  }
  return line;
}

std::string bar(double share, std::size_t width) {
  const auto full =
      static_cast<std::size_t>(std::round(std::clamp(share, 0.0, 1.0) * static_cast<double>(width)));
  std::string out;
  for (std::size_t i = 0; i < width; ++i) out += i < full ? "█" : "░";
  return out;
}

double last_known(const std::vector<double>& values) {
  const auto at = std::find_if(values.rbegin(), values.rend(), [](double v) { return std::isfinite(v); });
  return at == values.rend() ? 0 : *at;
}

double last(const std::vector<double>& values) { return values.empty() ? 0 : values.back(); }

std::string worker_line(const WorkerCurves& worker) {
  return format("  %-22s busy %s %3.0f%%   batch %4.1f   KV %3.0f%%", worker.name.c_str(),
                bar(last_known(worker.busy), 12).c_str(), 100 * last_known(worker.busy),
                last_known(worker.batch), 100 * last_known(worker.blocks_used));
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t width) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t from = values.size() > width ? values.size() - width : 0;
  double most = 0;
  for (std::size_t i = from; i < values.size(); ++i) most = std::max(most, values[i]);
  std::string out;
  for (std::size_t i = from; i < values.size(); ++i) {
    const double height = most > 0 ? std::max(0.0, values[i]) / most * 7 : 0;
    out += kBars[static_cast<std::size_t>(std::lround(height))];
  }
  return out;
}

std::vector<std::string> live_lines(const LiveFrame& frame, std::size_t width) {
  const LoadDriver::Progress& p = frame.progress;
  const double elapsed = seconds(p.elapsed);
  const std::size_t spark = std::min<std::size_t>(60, width > 40 ? width - 40 : 10);
  std::vector<std::string> out;
  out.push_back(format("replay to %s   %.0f of %.0f s%s", frame.target.c_str(), elapsed, frame.planned_s,
                       elapsed < frame.warm_up_s ? "   warming up" : ""));
  out.push_back("  " + bar(frame.planned_s > 0 ? elapsed / frame.planned_s : 1, spark));
  out.push_back(format("  sent %zu of %zu   done %zu   failed %zu   most late %.1f ms", p.sent, p.planned,
                       p.completed, p.failed, 1e3 * seconds(p.worst_lateness)));
  out.push_back(format("  in flight %8zu  ", p.in_flight) + sparkline(frame.in_flight, spark));
  out.push_back(format("  tokens/s  %8.0f  ", last(frame.tokens_per_s)) +
                sparkline(frame.tokens_per_s, spark));
  out.push_back(format("  last 10 s   TTFT p50 %.0f, p99 %.0f ms   ITL p50 %.1f, p99 %.1f ms",
                       frame.recent.ttft_p50_ms, frame.recent.ttft_p99_ms, frame.recent.itl_p50_ms,
                       frame.recent.itl_p99_ms));
  if (frame.recent.ended > 0)
    out.push_back(format(
        "  inside SLO  %s %.1f%% of %zu",
        bar(static_cast<double>(frame.recent.met) / static_cast<double>(frame.recent.ended), 12).c_str(),
        100.0 * static_cast<double>(frame.recent.met) / static_cast<double>(frame.recent.ended),
        frame.recent.ended));
  if (!frame.fleet.at_s.empty())
    out.push_back(format("  unique experts   %.1f routed → %.1f activated", last_known(frame.fleet.routed),
                         last_known(frame.fleet.activated)));
  for (const WorkerCurves& worker : frame.workers) out.push_back(worker_line(worker));
  for (std::string& line : out) line = clipped(std::move(line), width);
  return out;
}

std::string progress_line(const LiveFrame& frame) {
  const LoadDriver::Progress& p = frame.progress;
  return format(
      "%7.1f s   sent %zu of %zu   in flight %zu   done %zu   failed %zu   %.0f tokens/s   most late %.1f ms",
      seconds(p.elapsed), p.sent, p.planned, p.in_flight, p.completed, p.failed, last(frame.tokens_per_s),
      1e3 * seconds(p.worst_lateness));
}

void LivePainter::paint(const std::vector<std::string>& lines) {
  std::string out;
  if (painted_ > 0) out += "\x1b[" + std::to_string(painted_) + "A";
  for (const std::string& line : lines) out += "\x1b[2K" + line + "\n";
  // A frame may be shorter than the one before.
  for (std::size_t i = lines.size(); i < painted_; ++i) out += "\x1b[2K\n";
  painted_ = std::max(painted_, lines.size());
  std::fwrite(out.data(), 1, out.size(), terminal_);
  std::fflush(terminal_);
}

}  // namespace lynx
