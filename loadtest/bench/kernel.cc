// lynx-bench kernel: the MoE layer on the GPU against the time to read its active experts.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "kernels/backend.h"
#include "kernels/bench/device_roofline.h"
#include "loadtest/bench/expert_prefill.h"
#include "loadtest/bench/moe_logits.h"
#include "loadtest/bench/moe_timeline.h"
#include "loadtest/bench/subcommands.h"
#include "loadtest/capacity/model_shape.h"

namespace lynx {
namespace {

using cuda::MoeLayers;
using cuda::MoeShape;
using cuda::MoeTimes;

constexpr std::uint32_t kMaxRows = 64;

const std::string kQwen3 = "qwen3-30b-a3b";
const std::string kQwen2 = "qwen2-57b-a14b";
const std::string kMixtral = "mixtral-8x7b";
const std::string kDeepseek = "deepseek-v2-lite";

const std::string kPrefill = "prefill";

constexpr PolicyKind kPolicies[] = {PolicyKind::kOff, PolicyKind::kLynx, PolicyKind::kShare,
                                    PolicyKind::kEnergy};

MoeShape moe_shape(const std::string& name) {
  const ModelShape& model = *published_shape(name);
  return {model.name, {model.experts, model.hidden, model.expert_width}, model.top_k};
}

struct KernelFlags {
  std::string logits = "tests/kernels/lynx/data/router_logits_6x64x64.f16";
  std::vector<std::string> only;     // models, or kPrefill
  std::vector<std::string> tables;   // of random, routing, forced, recorded; empty: all
  std::vector<std::uint32_t> batch;  // of the random table; empty: all
  bool timeline = false;

  bool wants(const std::string& name) const { return has(only, name); }
  bool wants_table(const std::string& name) const { return has(tables, name); }
  template <typename T>
  static bool has(const std::vector<T>& chosen, const T& value) {
    return chosen.empty() || std::find(chosen.begin(), chosen.end(), value) != chosen.end();
  }
};

class Report {
 public:
  explicit Report(double bandwidth) : bandwidth_(bandwidth) {}

  void add(const MoeShape& shape, const std::string& what, std::uint32_t batch, const MoeTimes& t) {
    const double floor = t.activated * shape.expert_bytes() / bandwidth_ * 1e6;
    rows_.push_back({.name = shape.name + "." + what + ".b" + std::to_string(batch),
                     .unit = "us/layer",
                     .value = t.layer_us,
                     .ceiling = floor,
                     .ceiling_is = "bytes of the active experts / measured read bandwidth",
                     .target = "",
                     .details = {{"routed_experts", t.routed},
                                 {"active_experts", t.activated},
                                 {"route_us", t.route_us},
                                 {"experts_us", t.experts_us},
                                 {"experts_ratio", t.experts_us / floor},
                                 {"memory_gbytes_per_s", bandwidth_ * 1e-9},
                                 {"tbytes_per_s", t.activated * shape.expert_bytes() / t.layer_us * 1e-6}}});
    std::fprintf(stderr, "%-34s U %6.1f  %8.1f us  floor %8.1f  %.3f x  (experts %.3f x, route %.1f us)\n",
                 rows_.back().name.c_str(), t.activated, t.layer_us, floor, t.layer_us / floor,
                 t.experts_us / floor, t.route_us);
  }
  void add(BenchRow row) { rows_.push_back(std::move(row)); }
  std::vector<BenchRow> take() { return std::move(rows_); }

 private:
  double bandwidth_;
  std::vector<BenchRow> rows_;
};

void print_timeline(const MoeLayers& layers, const char* what, const Logits& logits, std::uint32_t rows) {
  std::printf("%s.%s.b%u\n%s", layers.shape().name.c_str(), what, rows,
              to_text(layers.timeline(logits, rows, {})).c_str());
}

void measure_random(Report& report, const MoeLayers& layers, const KernelFlags& flags,
                    const std::vector<std::uint32_t>& batches) {
  const MoeShape& shape = layers.shape();
  if (!flags.wants_table("random")) return;
  for (const std::uint32_t rows : batches) {
    if (!flags.has(flags.batch, rows)) continue;
    const Logits logits = random_logits(shape, rows, shape.experts.experts, 1);
    const MoeTimes exact = layers.measure(logits, rows, {});
    report.add(shape, "random", rows, exact);
    if (flags.timeline) print_timeline(layers, "random", logits, rows);
    const auto half = static_cast<std::uint32_t>(std::lround(exact.activated / 2));
    if (rows < 8 || half < shape.top_k) continue;
    const Logits few = random_logits(shape, rows, half, 2);
    report.add(shape, "half", rows, layers.measure(few, rows, {}));
    if (flags.timeline) print_timeline(layers, "half", few, rows);
  }
}

// A straight line in the number of experts: its slope against the bytes of one.
void measure_forced(Report& report, const MoeLayers& layers, std::uint32_t rows, double bandwidth) {
  const MoeShape& shape = layers.shape();
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  const std::uint32_t most = std::min(shape.experts.experts, rows * shape.top_k);
  for (std::uint32_t unique = shape.top_k; unique <= most; unique += std::max(1U, (most - shape.top_k) / 6)) {
    const MoeTimes t = layers.measure(forced_logits(shape, rows, unique, 3), rows, {});
    report.add(shape, "forced" + std::to_string(unique), rows, t);
    n += 1, sx += t.activated, sy += t.layer_us, sxx += t.activated * t.activated,
        sxy += t.activated * t.layer_us;
  }
  const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  report.add({.name = shape.name + ".slope.b" + std::to_string(rows),
              .unit = "us/expert",
              .value = slope,
              .ceiling = shape.expert_bytes() / bandwidth * 1e6,
              .ceiling_is = "bytes of an expert / measured read bandwidth",
              .target = "",
              .details = {{"intercept_us", (sy - slope * sx) / n}}});
}

void measure_recorded(Report& report, const MoeLayers& layers, const RecordedLogits& recorded) {
  for (const std::uint32_t rows : {4U, 16U, 32U})
    for (const PolicyKind kind : kPolicies) {
      const MoeTimes t = layers.measure(recorded_batches(recorded, rows), rows, {.kind = kind});
      report.add(layers.shape(), "recorded_" + std::string(to_string(kind)), rows, t);
    }
}

void measure_routing(Report& report, const MoeLayers& layers) {
  const MoeShape& shape = layers.shape();
  for (const std::uint32_t rows : {1U, 4U, 16U, 64U})
    for (const PolicyKind kind : kPolicies) {
      const Logits logits = random_logits(shape, rows, shape.experts.experts, 4);
      const double us = layers.route_us(logits, rows, {.kind = kind});
      report.add({.name = "route.n" + std::to_string(shape.experts.experts) + "." +
                          std::string(to_string(kind)) + ".b" + std::to_string(rows),
                  .unit = "us/layer",
                  .value = us,
                  .ceiling = 0,
                  .ceiling_is = "",
                  .target = "",
                  .details = {}});
      std::fprintf(stderr, "%-34s %8.2f us\n",
                   ("route " + shape.name + " " + std::string(to_string(kind))).c_str(), us);
    }
}

std::vector<BenchRow> run(const KernelFlags& flags) {
  (void)device_space("cuda");  // says in a sentence what is missing
  const double bandwidth = cuda::device_read_bandwidth(std::size_t{4} << 30);
  const double small = cuda::device_read_bandwidth(std::size_t{75} << 20);
  std::fprintf(stderr, "read bandwidth: %.3f TB/s on 4 GiB, %.3f on 75 MiB\n", bandwidth * 1e-12,
               small * 1e-12);
  Report report(bandwidth);
  report.add({.name = "read.75MiB",
              .unit = "GB/s",
              .value = small * 1e-9,
              .ceiling = bandwidth * 1e-9,
              .ceiling_is = "read bandwidth on 4 GiB",
              .target = "",
              .details = {}});
  for (const std::string& name : {kQwen3, kQwen2}) {
    if (!flags.wants(name)) continue;
    const MoeLayers layers(moe_shape(name), kMaxRows);
    measure_random(report, layers, flags, {1, 4, 8, 16, 32, 64});
    if (flags.wants_table("routing")) measure_routing(report, layers);
    if (flags.wants_table("forced")) measure_forced(report, layers, 16, bandwidth);
    if (flags.wants_table("recorded") && name == kQwen2)
      measure_recorded(report, layers, read_recorded_logits(flags.logits));
  }
  for (const std::string& name : {kMixtral, kDeepseek})
    if (flags.wants(name))
      measure_random(report, MoeLayers(moe_shape(name), kMaxRows), flags, {1, 4, 8, 16, 32});
  if (flags.has(flags.only, kPrefill))
    for (BenchRow& row : measure_expert_prefill(moe_shape(kQwen3))) report.add(std::move(row));
  return report.take();
}

}  // namespace

Subcommand add_kernel(CLI::App& app) {
  const auto flags = std::make_shared<KernelFlags>();
  CLI::App* parser =
      app.add_subcommand("kernel", "MoE layers on the GPU against the time to read their experts");
  parser->add_option("--logits", flags->logits, "recorded router logits: .npz, or .f16 [6, 64, 64]")
      ->capture_default_str();
  parser->add_option("--only", flags->only, "models to measure; prefill: the experts of whole prompts")
      ->check(CLI::IsMember({kQwen3, kQwen2, kMixtral, kDeepseek, kPrefill}));
  parser->add_option("--tables", flags->tables, "tables to measure")
      ->check(CLI::IsMember({"random", "routing", "forced", "recorded"}));
  parser->add_option("--batch", flags->batch, "rows of the random table")
      ->check(CLI::IsMember({1U, 4U, 8U, 16U, 32U, 64U}));
  parser->add_flag("--timeline", flags->timeline,
                   "with the random table: where inside a layer its time goes");
  return {parser, [flags] { return run(*flags); }};
}

}  // namespace lynx
