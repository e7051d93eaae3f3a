#include "loadtest/bench/moe_timeline.h"

#include <algorithm>
#include <cstdio>

namespace lynx {
namespace {

using cuda::ExpertsMark;
using cuda::kExpertsMarks;
using cuda::kRouteMarks;
using cuda::MoeTimeline;

constexpr const char* kRouteNames[] = {
    "route: block runs",       "route: may read logits", "route: logits read",  "route: voted",
    "route: active set known", "route: experts chosen",  "route: places known", "route: end"};
constexpr const char* kExpertsNames[] = {"block runs",
                                         "may read the plan",
                                         "first task found",
                                         "first weights asked for",
                                         "first rows asked for",
                                         "first stage there",
                                         "first task multiplied",
                                         "last gate-up task told",
                                         "first down task may start",
                                         "to the end: last weights asked for",
                                         "to the end: last stage there",
                                         "to the end: last task written",
                                         "to the end: last task told",
                                         "to the end: block ends",
                                         "consumers wait for a task",
                                         "consumers wait for a stage",
                                         "consumers sum and write",
                                         "consumers wait for the teller",
                                         "inputs wait for gate-up",
                                         "tasks",
                                         "all"};
static_assert(std::size(kRouteNames) == kRouteMarks && std::size(kExpertsNames) == kExpertsMarks);

constexpr bool is_late(ExpertsMark mark) { return mark >= ExpertsMark::kLastIssue; }
constexpr std::size_t at(ExpertsMark mark) { return static_cast<std::size_t>(mark); }

class Table {
 public:
  void add(const char* name, std::vector<double> values) {
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    char line[160];
    std::snprintf(line, sizeof(line), "  %-36s %8.2f %8.2f %8.2f\n", name, values.front(),
                  values[values.size() / 2], values.back());
    text_ += line;
  }
  std::string text() const { return text_; }

 private:
  std::string text_ = "  us from the end of the layer before         min   median      max\n";
};

class Reader {
 public:
  explicit Reader(const MoeTimeline& t) : t_(t) {}

  std::uint64_t experts(std::size_t layer, std::size_t block, ExpertsMark mark) const {
    return t_.experts[(layer * t_.expert_blocks + block) * kExpertsMarks + at(mark)];
  }
  std::uint64_t end_of(std::size_t layer) const {
    std::uint64_t end = 0;
    for (std::size_t b = 0; b < t_.expert_blocks; ++b)
      end = std::max(end, experts(layer, b, ExpertsMark::kEnd));
    return end;
  }
  // A moment that a block did not have is 0.
  static void add_moment(std::vector<double>& to, std::uint64_t moment, std::uint64_t from) {
    if (moment != 0) to.push_back((static_cast<double>(moment) - static_cast<double>(from)) * 1e-3);
  }
  std::vector<double> route_moments(std::size_t mark) const {
    std::vector<double> values;
    for (std::size_t layer = 1; layer < t_.layers; ++layer)
      for (std::size_t b = 0; b < t_.route_blocks; ++b)
        add_moment(values, t_.route[(layer * t_.route_blocks + b) * kRouteMarks + mark], end_of(layer - 1));
    return values;
  }
  std::vector<double> expert_moments(ExpertsMark mark) const {
    std::vector<double> values;
    for (std::size_t layer = 1; layer < t_.layers; ++layer)
      for (std::size_t b = 0; b < t_.expert_blocks; ++b)
        add_moment(values, experts(layer, b, mark), end_of(is_late(mark) ? layer : layer - 1));
    return values;
  }
  // Cycles as microseconds of the block's own clock.
  std::vector<double> expert_sums(ExpertsMark mark) const {
    std::vector<double> values;
    for (std::size_t layer = 1; layer < t_.layers; ++layer)
      for (std::size_t b = 0; b < t_.expert_blocks; ++b) {
        const auto sum = static_cast<double>(experts(layer, b, mark));
        const double ns = static_cast<double>(experts(layer, b, ExpertsMark::kEnd) -
                                              experts(layer, b, ExpertsMark::kStart));
        const auto cycles = static_cast<double>(experts(layer, b, ExpertsMark::kCycles));
        if (cycles == 0) continue;  // no such block
        values.push_back(mark == ExpertsMark::kTasks ? sum : sum * ns / cycles * 1e-3);
      }
    return values;
  }

 private:
  const MoeTimeline& t_;
};

}  // namespace

std::string to_text(const MoeTimeline& timeline) {
  const Reader reader(timeline);
  Table table;
  for (std::size_t mark = 0; mark < kRouteMarks; ++mark)
    table.add(kRouteNames[mark], reader.route_moments(mark));
  for (std::size_t mark = 0; mark < kExpertsMarks; ++mark) {
    const auto which = static_cast<ExpertsMark>(mark);
    table.add(kExpertsNames[mark],
              mark < at(ExpertsMark::kWaitTask) ? reader.expert_moments(which) : reader.expert_sums(which));
  }
  return table.text();
}

}  // namespace lynx
