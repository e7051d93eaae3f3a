#include "loadtest/capacity/measured_cost.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace lynx {
namespace {

using nlohmann::json;

constexpr double kLeastSlope = 1e-15;  // seconds: no machine reads an expert or computes a token in less

struct Point {
  double x = 0, seconds = 0;
};

struct Line {
  double at_zero = 0, slope = 0, worst_error = 0;
};

// Least squares of the relative error; a line below zero at zero would promise steps for nothing, so that one
// starts at zero. No slope: the points have one x, or fall.
std::optional<Line> fit(const std::vector<Point>& points) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Point& p : points) {
    const double weight = 1 / (p.seconds * p.seconds);
    w += weight, x += weight * p.x, y += weight * p.seconds;
    xx += weight * p.x * p.x, xy += weight * p.x * p.seconds;
  }
  const double spread = w * xx - x * x;
  if (!(spread > 1e-9 * w * xx)) return std::nullopt;
  Line line{.at_zero = (y * xx - x * xy) / spread, .slope = (w * xy - x * y) / spread};
  if (line.at_zero < 0) line = {.at_zero = 0, .slope = xy / xx};
  if (!(line.slope > kLeastSlope) || !std::isfinite(line.slope) || !std::isfinite(line.at_zero))
    return std::nullopt;
  for (const Point& p : points)
    line.worst_error =
        std::max(line.worst_error, std::abs(line.at_zero + line.slope * p.x - p.seconds) / p.seconds);
  return line;
}

// One row of lynx-bench; what it lacks is 0 or empty.
class Row {
 public:
  explicit Row(const json& row) : row_(row) {}

  std::string name() const { return text("name"); }
  std::string unit() const { return text("unit"); }
  double value(const char* key) const { return number(row_, key); }
  double detail(const char* key) const {
    const auto at = row_.find("details");
    return at != row_.end() && at->is_object() ? number(*at, key) : 0;
  }

 private:
  std::string text(const char* key) const {
    const auto at = row_.find(key);
    return at != row_.end() && at->is_string() ? at->get<std::string>() : "";
  }
  static double number(const json& object, const char* key) {
    const auto at = object.find(key);
    const double value = at != object.end() && at->is_number() ? at->get<double>() : 0;
    return std::isfinite(value) && value > 0 && value < 1e18 ? value : 0;
  }
  const json& row_;
};

Error invalid(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

Result<MeasuredCost> line_through(const std::vector<Point>& points, MeasuredCost out) {
  std::set<double> places;
  for (const Point& p : points) places.insert(p.x);
  if (places.size() < 2) return invalid("a line needs times of at least two batches or policies");
  if (out.bytes_per_second == 0) return invalid("no read bandwidth in it");
  const auto line = fit(points);
  if (!line) return invalid("the times do not grow with the experts read: no cost follows from them");
  out.rows = points.size();
  out.worst_error = line->worst_error;
  out.fixed_s = line->at_zero;
  out.per_expert_s = line->slope;
  return out;
}

// Rows "MODEL.prefill_experts.tT": the experts of a layer for T tokens computed at once.
void add_prefill(const json& rows, const ModelShape& model, MeasuredCost& out) {
  const std::string begin = model.name + ".prefill_experts.t";
  std::vector<Point> points;
  for (const json& one : rows) {
    const Row row(one);
    const std::string name = row.name();
    if (!name.starts_with(begin)) continue;
    double tokens = 0;
    std::from_chars(name.data() + begin.size(), name.data() + name.size(), tokens);
    const double us = row.detail("experts_us") + row.detail("route_us");
    if (tokens > 0 && us > 0) points.push_back({tokens, 1e-6 * us});
  }
  const auto line = fit(points);
  if (!line) return;
  out.prefill_rows = points.size();
  out.prefill_flops = 2 * model.top_k * model.expert_bytes() / model.bytes_per_weight / line->slope;
  out.prefill_layer_s = line->at_zero;
}

// Rows "MODEL.WHAT.bB": us of a MoE layer, over its active experts; "read.SIZE": its ceiling is the
// bandwidth.
Result<MeasuredCost> of_layers(const json& rows, const ModelShape& model) {
  MeasuredCost out{.of = MeasuredCost::Of::kLayers};
  std::vector<Point> points;
  std::set<std::string> models;
  for (const json& one : rows) {
    const Row row(one);
    const std::string name = row.name(), of = name.substr(0, name.find('.'));
    if (of == "read") out.bytes_per_second = 1e9 * row.value("ceiling");
    const double experts = row.detail("active_experts"), us = row.value("value");
    if (row.unit() != "us/layer" || experts == 0 || us == 0) continue;
    models.insert(of);
    if (of == model.name) points.push_back({experts, 1e-6 * us});
  }
  if (points.empty()) {
    std::string known;
    for (const std::string& one : models) known += " " + one;
    return invalid("no layers of '" + model.name + "' in it; it has" + (known.empty() ? " none" : known));
  }
  add_prefill(rows, model, out);
  return line_through(points, out);
}

// Rows "step.bB": ms of a step, over its bytes. The slope holds for everything that is read.
Result<MeasuredCost> of_steps(const json& rows, const ModelShape& model) {
  MeasuredCost out{.of = MeasuredCost::Of::kSteps};
  std::vector<Point> points;  // x in experts' worth of bytes
  for (const json& one : rows) {
    const Row row(one);
    if (!row.name().starts_with("step.")) continue;
    const double megabytes = row.detail("step_mbytes"), ms = row.value("value");
    if (megabytes == 0 || ms == 0) return invalid(row.name() + ": no time or no step_mbytes");
    if (row.detail("layers") != model.layers ||
        std::abs(1e6 * row.detail("expert_mbytes") / model.expert_bytes() - 1) > 1e-3)
      return invalid(row.name() + ": layers and expert_mbytes are not those of '" + model.name + "'");
    out.bytes_per_second = 1e9 * row.detail("memory_gbytes_per_s");
    points.push_back({1e6 * megabytes / model.expert_bytes(), 1e-3 * ms});
  }
  return line_through(points, out);
}

}  // namespace

Result<MeasuredCost> parse_measured_cost(const std::string& text, const std::string& name,
                                         const ModelShape& model) {
  const json rows = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool sound =
      rows.is_array() && std::ranges::all_of(rows, [](const json& r) { return r.is_object(); });
  const auto is_step = [](const json& row) { return Row(row).name().starts_with("step."); };
  auto out = sound ? std::ranges::any_of(rows, is_step) ? of_steps(rows, model) : of_layers(rows, model)
                   : invalid("no list of rows as `lynx-bench kernel --json` or `step --json` writes it");
  if (!out) return Error{out.error().code, name + ": " + out.error().message};
  return out;
}

Result<MeasuredCost> read_measured_cost(const std::string& path, const ModelShape& model) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorCode::kNotFound, path + ": cannot be opened"};
  return parse_measured_cost({std::istreambuf_iterator<char>(in), {}}, path, model);
}

void apply(const MeasuredCost& measured, const ModelShape& model, GpuShape& gpu, CostOptions& cost) {
  const double expert_rate = model.expert_bytes() / measured.per_expert_s;
  gpu.bytes_per_second = measured.bytes_per_second;
  switch (measured.of) {
    case MeasuredCost::Of::kLayers:
      cost.expert_bandwidth = expert_rate;
      cost.layer_overhead_s = measured.fixed_s;
      if (measured.prefill_rows == 0) return;
      cost.prefill_efficiency = std::min(1.0, measured.prefill_flops / gpu.flops);
      cost.prefill_layer_s = std::max(measured.prefill_layer_s, 1e-9);  // 0 would be: not measured
      return;
    case MeasuredCost::Of::kSteps:
      // A slope above the bandwidth of gigabytes is a cache's: then that is the bandwidth.
      gpu.bytes_per_second = std::max(measured.bytes_per_second, expert_rate);
      cost.read_efficiency = expert_rate / gpu.bytes_per_second;
      cost.expert_bandwidth = 0;
      cost.layer_overhead_s = 0;
      cost.step_overhead_s = measured.fixed_s;
      return;
  }
}

}  // namespace lynx
