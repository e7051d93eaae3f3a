#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "kernels/bench/roofline.h"
#include "loadtest/bench/model_bench.h"
#include "loadtest/bench/subcommands.h"

namespace lynx {
namespace {

struct PrefillFlags {
  ModelFlags model;
  std::vector<std::uint32_t> prompts = {512};
  std::vector<std::uint32_t> together = {1};
  std::uint32_t chunk = 512;
  std::uint32_t repeats = 7;
};

// The matrix products of one layer over a chunk of t tokens. An expert sees its fair share of the rows.
struct Product {
  std::uint32_t m, n, k, times;
  double flops() const { return 2.0 * m * n * k * times; }
};

std::vector<Product> products_of_layer(const ModelConfig& c, std::uint32_t t) {
  const std::uint32_t q = c.q_heads * c.head_dim;
  const std::uint32_t kv = c.kv_heads * c.head_dim;
  const std::uint32_t expert_rows = std::max(1U, t * c.router.top_k / c.router.experts);
  return {{t, q + 2 * kv, c.hidden, 1},
          {t, c.hidden, q, 1},
          {t, c.router.experts, c.hidden, 1},
          {expert_rows, 2 * c.moe_intermediate, c.hidden, c.router.experts},
          {expert_rows, c.hidden, c.moe_intermediate, c.router.experts}};
}

// `prompts` of so many tokens: one in chunks, several in one step.
BenchRow measure(Model& model, const PrefillFlags& flags, std::uint32_t prompt, std::uint32_t prompts) {
  const ModelConfig& config = model.config();
  const std::uint32_t tokens = prompt * prompts;
  const std::uint32_t chunk = std::min(flags.chunk, tokens);
  double flops = 0;
  double onednn_seconds = 0;
  for (const Product& p : products_of_layer(config, chunk)) {
    const double share = double{1} * config.layers * tokens / chunk;  // the tokens in units of a chunk
    flops += p.flops() * share;
    onednn_seconds += onednn_matmul_seconds(flags.model.threads, p.m, p.n, p.k) * p.times * share;
  }
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < flags.repeats + 1; ++i) {
    BenchBatch batch(model, flags.model.kv(), prompts, prompt);
    seconds.push_back(prompts == 1 ? batch.prefill(prompt, chunk) : batch.prefill_together(prompt));
  }
  seconds.erase(seconds.begin());  // buffers grew there
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  return {.name = "prefill." + std::to_string(prompt) + (prompts == 1 ? "" : "x" + std::to_string(prompts)),
          .unit = "GFLOP/s",
          .value = flops / median / 1e9,
          .ceiling = flops / onednn_seconds / 1e9,
          .ceiling_is =
              "oneDNN f32 on the same products; the value's time includes attention, routing and all else",
          .target = ">= 0.4",
          .details = {{"median_ms", median * 1e3},
                      {"best_ms", seconds.front() * 1e3},
                      {"tokens_per_s", tokens / median},
                      {"onednn_ms", onednn_seconds * 1e3}}};
}

std::vector<BenchRow> run(const PrefillFlags& flags) {
  const auto model = flags.model.load(flags.chunk, *std::ranges::max_element(flags.together));
  std::vector<BenchRow> rows;
  for (const std::uint32_t tokens : flags.prompts) {
    if (tokens > model->config().context) throw std::runtime_error("--prompt goes past the model's context");
    for (const std::uint32_t prompts : flags.together) {
      if (prompts > 1 && tokens * std::uint64_t{prompts} > flags.chunk)
        throw std::runtime_error("--together: " + std::to_string(prompts) + " prompts of " +
                                 std::to_string(tokens) + " tokens are more than --chunk");
      rows.push_back(measure(*model, flags, tokens, prompts));
    }
  }
  return rows;
}

}  // namespace

Subcommand add_prefill(CLI::App& app) {
  const auto flags = std::make_shared<PrefillFlags>();
  CLI::App* parser = app.add_subcommand("prefill", "a prompt against oneDNN on the same matrix products");
  flags->model.add_to(*parser);
  parser->add_option("--prompt", flags->prompts, "prompt lengths")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  parser->add_option("--together", flags->together, "prompts of one step, as far as --chunk takes them")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  parser->add_option("--chunk", flags->chunk, "tokens per step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  parser->add_option("--repeats", flags->repeats, "runs to take the median of")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  return {parser, [flags] { return run(*flags); }};
}

}  // namespace lynx
