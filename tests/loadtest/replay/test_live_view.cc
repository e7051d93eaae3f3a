#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "loadtest/replay/live_view.h"
#include "tests/loadtest/replay/sample_run.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;
using testing::ms;

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

LiveFrame frame() {
  LiveFrame f;
  f.target = "127.0.0.1:8000";
  f.progress = {.elapsed = 30s,
                .planned = 200,
                .sent = 100,
                .in_flight = 7,
                .completed = 92,
                .failed = 1,
                .pieces = 900,
                .worst_lateness = ms(2.5)};
  f.planned_s = 60;
  f.recent = {
      .ttft_p50_ms = 120, .ttft_p99_ms = 480, .itl_p50_ms = 20.5, .itl_p99_ms = 61, .ended = 40, .met = 30};
  f.tokens_per_s = {0, 100, 200, 400};
  f.in_flight = {1, 2, 4, 7};
  f.fleet = {.at_s = {1}, .routed = {40.25}, .activated = {22.5}, .kv_bytes_per_s = {1}, .kv_ms = {1}};
  f.workers = {{.name = "127.0.0.1:8012",
                .decodes = true,
                .at_s = {1},
                .busy = {0.5},
                .batch = {9.5},
                .blocks_used = {0.25}}};
  return f;
}

TEST(LiveView, ShowsTheRunAsItGoes) {
  std::string all;
  for (const std::string& line : live_lines(frame(), 100)) {
    EXPECT_LE(columns(line), 100u) << line;
    all += line + "\n";
  }
  for (const char* part : {"30 of 60 s", "sent 100 of 200", "failed 1", "most late 2.5 ms",
                           "TTFT p50 120, p99 480 ms", "75.0% of 40", "40.2 routed → 22.5 activated",
                           "127.0.0.1:8012", "busy ██████░░░░░░  50%", "batch  9.5", "KV  25%", "▁"})
    EXPECT_NE(all.find(part), std::string::npos) << part << " in\n" << all;
}

TEST(LiveView, FitsANarrowTerminalAndCutsNoCharacter) {
  for (const std::string& line : live_lines(frame(), 20)) {
    EXPECT_LE(columns(line), 20u);
    EXPECT_NE(static_cast<unsigned char>(line.back()) & 0xC0U, 0xC0U)
        << "the first byte of a cut character: " << line;
  }
}

TEST(LiveView, SparklinesScaleToTheirHighest) {
  EXPECT_EQ(sparkline({0, 7, 14}, 10), "▁▅█");
  EXPECT_EQ(sparkline({9, 0, 14}, 2), "▁█") << "only the last ones";
  EXPECT_EQ(sparkline({0, 0}, 5), "▁▁");
  EXPECT_EQ(sparkline({}, 5), "");
}

TEST(LiveView, FramesAreDrawnOverEachOther) {
  char buffer[512] = {};
  std::FILE* terminal = fmemopen(buffer, sizeof buffer, "w");
  LivePainter painter(terminal);
  painter.paint({"one", "two", "three"});
  painter.paint({"four"});
  std::fclose(terminal);
  EXPECT_STREQ(buffer, "\x1b[2Kone\n\x1b[2Ktwo\n\x1b[2Kthree\n\x1b[3A\x1b[2Kfour\n\x1b[2K\n\x1b[2K\n");
}

TEST(LiveStats, ForgetsWhatIsOlderThanTheWindow) {
  LiveStats stats;
  const Clock::time_point start{100s};
  stats.first_piece(start, ms(900));
  stats.ended(start, false);
  stats.first_piece(start + 8s, ms(100));
  stats.next_piece(start + 8s, ms(20));
  stats.ended(start + 9s, true);
  EXPECT_DOUBLE_EQ(stats.recent(start + 9s).ttft_p50_ms, 500);
  EXPECT_EQ(stats.recent(start + 9s).ended, 2u);
  const auto later = stats.recent(start + 11s);
  EXPECT_DOUBLE_EQ(later.ttft_p99_ms, 100);
  EXPECT_DOUBLE_EQ(later.itl_p50_ms, 20);
  EXPECT_EQ(later.ended, 1u);
  EXPECT_EQ(later.met, 1u);
  EXPECT_EQ(stats.recent(start + 60s).ended, 0u);
}

}  // namespace
}  // namespace lynx
