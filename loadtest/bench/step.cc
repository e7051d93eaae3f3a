#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "kernels/bench/roofline.h"
#ifdef LYNX_CUDA
#include "kernels/bench/device_roofline.h"
#include "loadtest/bench/step_timeline.h"
#endif
#include "loadtest/bench/model_bench.h"
#include "loadtest/bench/subcommands.h"

namespace lynx {
namespace {

constexpr std::size_t kBeyondCaches = std::size_t{512} << 20;
constexpr std::size_t kBeyondL2 = std::size_t{4} << 30;
[[maybe_unused]] constexpr std::size_t kWholeReads = 4096;  // bytes
constexpr std::uint32_t kChunk = 512;
constexpr std::uint32_t kTimelineSteps = 12;

struct StepFlags {
  ModelFlags model;
  std::vector<std::uint32_t> batches = {1, 16};
  std::vector<std::string> policies = {"lynx"};
  std::uint32_t context = 128;
  std::uint32_t steps = 200;
  bool timeline = false;
};

bool on_gpu(const StepFlags& flags) { return device_space(flags.model.device).has_value(); }

// Bytes per second that the memory which holds the weights gives when that many are read.
double read_rate(const StepFlags& flags, std::size_t bytes) {
#ifdef LYNX_CUDA
  if (on_gpu(flags)) return cuda::device_read_bandwidth(bytes / kWholeReads * kWholeReads);
#endif
  return read_bandwidth(flags.model.threads, bytes);
}

BenchRow measure(Model& model, const StepFlags& flags, const RoutePolicy& policy, std::uint32_t batch,
                 double memory_rate) {
  BenchBatch sequences(model, flags.model.kv(), batch, flags.context + flags.steps + 1 + kTimelineSteps);
  sequences.prefill(flags.context, kChunk);
  sequences.step(policy);  // buffers grow here
  std::vector<double> seconds;
  std::vector<double> launches;
  double bytes = 0;
  double experts = 0;
  for (std::uint32_t i = 0; i < flags.steps; ++i) {
    seconds.push_back(sequences.step(policy));
    launches.push_back(sequences.launch_seconds());
    bytes += sequences.step_bytes() / flags.steps;
    for (const PlanStats& layer : sequences.result().layers) {
      experts += double{1} * layer.activated_experts / static_cast<double>(sequences.result().layers.size()) /
                 flags.steps;
    }
  }
#ifdef LYNX_CUDA
  if (flags.timeline)
    print_step_timeline([&] { sequences.step(policy); }, kTimelineSteps, batch, model.config().layers);
#endif
  std::sort(seconds.begin(), seconds.end());
  std::sort(launches.begin(), launches.end());
  const double median = seconds[seconds.size() / 2];
  // A buffer beside the weights: one of many gigabytes would not fit, and reads no faster.
  const double same_size_rate = read_rate(flags, std::min(static_cast<std::size_t>(bytes), kBeyondL2));
  return {.name = "step.b" + std::to_string(batch),
          .unit = "ms",
          .value = median * 1e3,
          .ceiling = bytes / memory_rate * 1e3,
          .ceiling_is = "reading the step's bytes at the machine's read bandwidth",
          .target = on_gpu(flags) ? ""
                    : batch == 1  ? "<= 2.5"
                                  : "<= 2.0",
          .details = {{"best_ms", seconds.front() * 1e3},
                      {"p90_ms", seconds[seconds.size() * 9 / 10] * 1e3},
                      {"host_us_before_launch", launches[launches.size() / 2] * 1e6},
                      {"step_mbytes", bytes / 1e6},
                      {"layers", double{1} * model.config().layers},
                      {"expert_mbytes", static_cast<double>(model.config().expert_bytes()) / 1e6},
                      {"experts_per_layer", experts},
                      {"achieved_gbytes_per_s", bytes / median / 1e9},
                      {"memory_gbytes_per_s", memory_rate / 1e9},
                      {"same_size_gbytes_per_s", same_size_rate / 1e9},
                      {"ratio_to_same_size_buffer", median / (bytes / same_size_rate)}}};
}

RoutePolicy parse_policy(const std::string& name) {
  const auto kind = parse_policy_kind(name);
  if (!kind) throw std::runtime_error("--policy: " + kind.error().message);
  RoutePolicy policy;
  policy.kind = *kind;
  return policy;
}

std::vector<BenchRow> run(const StepFlags& flags) {
  std::vector<RoutePolicy> policies;
  for (const std::string& name : flags.policies) policies.push_back(parse_policy(name));
  const std::uint32_t largest = *std::max_element(flags.batches.begin(), flags.batches.end());
#ifdef LYNX_CUDA
  const bool marks = on_gpu(flags) && has_step_timeline();
#else
  const bool marks = false;
#endif
  if (flags.timeline && !marks)
    throw std::runtime_error("--timeline: on a GPU alone, and in a build with -DLYNX_STEP_TIMELINE=ON");
  const auto model = flags.model.load(std::max(largest, kChunk), largest);
  if (flags.context + flags.steps + 2 + kTimelineSteps > model->config().context) {
    throw std::runtime_error("--context and --steps go past the model's context");
  }
  const double memory_rate = read_rate(flags, on_gpu(flags) ? kBeyondL2 : kBeyondCaches);
  std::vector<BenchRow> rows;
  for (const std::uint32_t batch : flags.batches) {
    for (const RoutePolicy& policy : policies) {
      rows.push_back(measure(*model, flags, policy, batch, memory_rate));
      if (policies.size() > 1) rows.back().name += "." + std::string(to_string(policy.kind));
    }
  }
  return rows;
}

}  // namespace

Subcommand add_step(CLI::App& app) {
  const auto flags = std::make_shared<StepFlags>();
  CLI::App* parser = app.add_subcommand("step", "a decode step against the time to read its bytes");
  flags->model.add_to(*parser);
  parser->add_option("--batch", flags->batches, "batch sizes")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  parser->add_option("--policy", flags->policies, "routing policies")->capture_default_str();
  parser->add_option("--context", flags->context, "tokens before the first step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  parser->add_option("--steps", flags->steps, "steps to time")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  parser->add_flag("--timeline", flags->timeline,
                   "print what each kernel of a layer takes (in a build with LYNX_STEP_TIMELINE)");
  return {parser, [flags] { return run(*flags); }};
}

}  // namespace lynx
