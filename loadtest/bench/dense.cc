// lynx-bench dense: the kernels of a step other than routing and experts, on the GPU, against the time to
// read what they must.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "kernels/backend.h"
#include "kernels/bench/device_roofline.h"
#include "kernels/cuda/timeline.h"
#include "loadtest/bench/dense_chain.h"
#include "loadtest/bench/small_ops.h"
#include "loadtest/bench/subcommands.h"
#include "loadtest/capacity/model_shape.h"

namespace lynx {
namespace {

using cuda::DenseShape;

const std::string kQwen3 = "qwen3-30b-a3b";
constexpr std::uint32_t kContext = 1024;
constexpr std::uint32_t kUnevenContext = 1074;  // no multiple of the parts that attention cuts
constexpr std::uint32_t kPrompt = 4096;

DenseShape dense_shape(const std::string& name) {
  const ModelShape& m = *published_shape(name);
  return {m.name, m.hidden, m.q_heads, m.kv_heads, m.head_dim, m.experts, m.vocab};
}

class Report {
 public:
  explicit Report(double bandwidth) : bandwidth_(bandwidth) {}

  void add_read(const std::string& name, double us, double bytes,
                std::map<std::string, double> details = {}) {
    add({.name = name,
         .unit = "us",
         .value = us,
         .ceiling = bytes / bandwidth_ * 1e6,
         .ceiling_is = "bytes read / measured read bandwidth",
         .target = "",
         .details = std::move(details)});
  }
  void add_us(const std::string& name, double us) {
    add({.name = name,
         .unit = "us",
         .value = us,
         .ceiling = 0,
         .ceiling_is = "",
         .target = "",
         .details = {}});
  }
  void add(BenchRow row) {
    std::fprintf(stderr, "%-40s %9.2f %-8s %9.2f  %.3f", row.name.c_str(), row.value, row.unit.c_str(),
                 row.ceiling, row.ratio());
    for (const auto& [key, value] : row.details) std::fprintf(stderr, "  %s %.2f", key.c_str(), value);
    std::fputc('\n', stderr);
    rows_.push_back(std::move(row));
  }
  std::vector<BenchRow> take() { return std::move(rows_); }

 private:
  double bandwidth_;
  std::vector<BenchRow> rows_;
};

void measure_gemm(Report& report, const std::string& name, std::uint32_t n, std::uint32_t k, bool add) {
  const cuda::GemmLayers layers(n, k, cuda::kSkinnyRows);
  for (const std::uint32_t rows : {1U, 16U, 32U, 64U}) {
    report.add_read(name + ".b" + std::to_string(rows), layers.skinny_us(rows, add), layers.weight_bytes(),
                    {{"cublaslt_us", layers.wide_us(rows, add)}, {"cached_us", layers.cached_us(rows, add)}});
  }
}

// The router's product with the norm of its rows: in one launch, and in two.
void measure_router(Report& report, const DenseShape& s) {
  const cuda::GemmLayers layers(s.experts, s.hidden, cuda::kSkinnyRows);
  for (const std::uint32_t rows : {1U, 16U, 32U, 64U}) {
    report.add_read(s.name + ".norm_router.b" + std::to_string(rows), layers.normed_us(rows, false),
                    layers.weight_bytes() + 4.0 * rows * s.hidden,
                    {{"apart_us", layers.normed_us(rows, true)}});
  }
}

void measure_products(Report& report, const DenseShape& s) {
  measure_gemm(report, s.name + ".qkv", s.qkv_size(), s.hidden, false);
  measure_gemm(report, s.name + ".o", s.hidden, s.q_size(), true);
  measure_gemm(report, s.name + ".router", s.experts, s.hidden, false);
  measure_router(report, s);
  measure_gemm(report, s.name + ".head", s.vocab, s.hidden, false);
}

void print_timeline(const std::vector<double>& marks, std::uint32_t rows) {
  constexpr const char* kNames[] = {"runs",
                                    "may read x",
                                    "has its normed rows",
                                    "has multiplied by qkv",
                                    "has added up qkv",
                                    "all have",
                                    "has attended",
                                    "all have",
                                    "has merged",
                                    "all have",
                                    "has the merged rows",
                                    "has multiplied by o",
                                    "ends"};
  static_assert(std::size(kNames) == cuda::kBlockMarks);
  std::printf("attention block, B = %u: us since the one before ended; median block, last block\n", rows);
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    std::printf("  %-24s %7.2f %7.2f\n", kNames[i], marks[2 * i], marks[2 * i + 1]);
}

struct DenseFlags {
  bool all = false;
  bool block = false;
  bool router = false;
  bool timeline = false;
  std::vector<std::uint32_t> contexts = {kUnevenContext};
};

void measure_block(Report& report, const DenseShape& s, std::uint32_t rows, std::uint32_t context,
                   bool timeline) {
  const cuda::KvLayers kv(s, rows, context);
  const cuda::DenseChain chain(s, kv);
  const std::string of = (context == kUnevenContext ? "" : ".c" + std::to_string(context)) + ".b";
  const auto add = [&](const char* name, cuda::LayerPart part) {
    report.add_read(s.name + name + of + std::to_string(rows), chain.us(rows, part), chain.bytes(rows, part));
  };
  if (timeline) print_timeline(chain.timeline(rows), rows);
  add(".block", cuda::LayerPart::kBlock);
  add(".block_apart", cuda::LayerPart::kBlockApart);
  add(".dense_layer", cuda::LayerPart::kAll);
}

void measure_attention(Report& report, const DenseShape& s, const DenseFlags& flags) {
  for (const std::uint32_t rows : {1U, 16U, 32U, 64U}) {
    const cuda::KvLayers kv(s, rows, kContext);
    report.add_read(s.name + ".attention.c1024.b" + std::to_string(rows),
                    cuda::decode_attention_us(s, kv, rows), kv.bytes_per_layer());
    for (const std::uint32_t context : flags.contexts)
      measure_block(report, s, rows, context, flags.timeline);
  }
  const cuda::KvLayers longer(s, 16, 8 * kContext);
  report.add_read(s.name + ".attention.c8192.b16", cuda::decode_attention_us(s, longer, 16),
                  longer.bytes_per_layer());
}

void measure_prefill(Report& report, const DenseShape& s) {
  const cuda::KvLayers kv(s, 1, kPrompt);
  const double us = cuda::prefill_attention_us(s, kv, kPrompt);
  const double pairs = 0.5 * kPrompt * (kPrompt + 1);
  report.add({.name = s.name + ".prefill_attention.t4096",
              .unit = "TFLOP/s",
              .value = 4e-6 * pairs * s.q_size() / us,
              .ceiling = 0,
              .ceiling_is = "",
              .target = "",
              .details = {{"us", us}}});
  const cuda::GemmLayers layers(s.qkv_size(), s.hidden, kPrompt);
  const double product_us = layers.wide_us(kPrompt, false);
  report.add({.name = s.name + ".prefill_qkv.t4096",
              .unit = "TFLOP/s",
              .value = 2e-6 * kPrompt * s.qkv_size() * s.hidden / product_us,
              .ceiling = 0,
              .ceiling_is = "",
              .target = "",
              .details = {{"us", product_us}}});
}

void measure_small(Report& report, const DenseShape& s) {
  for (const std::uint32_t rows : {16U, 64U}) {
    const cuda::KvLayers kv(s, rows, kContext);
    const cuda::SmallOps us = cuda::small_ops_us(s, kv, rows);
    const std::string b = ".b" + std::to_string(rows);
    report.add_us(s.name + ".rms_norm" + b, us.rms_norm);
    report.add_us(s.name + ".rope_store" + b, us.rope_store);
    report.add_us(s.name + ".embed" + b, us.embed);
    report.add_us("sample.greedy" + b, cuda::sample_us(rows, s.vocab, 0, 1, 0));
    report.add_us("sample.temperature" + b, cuda::sample_us(rows, s.vocab, 1, 1, 0));
    report.add_us("sample.top_p" + b, cuda::sample_us(rows, s.vocab, 1, 0.9F, 0));
    report.add_us("sample.top_k_top_p" + b, cuda::sample_us(rows, s.vocab, 1, 0.9F, 50));
  }
}

std::vector<BenchRow> run(const DenseFlags& flags) {
  (void)device_space("cuda");  // says in a sentence what is missing
  const double bandwidth = cuda::device_read_bandwidth(std::size_t{4} << 30);
  Report report(bandwidth);
  for (const std::size_t mib : {16U, 32U, 64U}) {
    report.add({.name = "read." + std::to_string(mib) + "MiB",
                .unit = "GB/s",
                .value = cuda::device_read_bandwidth(mib << 20) * 1e-9,
                .ceiling = bandwidth * 1e-9,
                .ceiling_is = "read bandwidth on 4 GiB",
                .target = "",
                .details = {}});
  }
  std::vector<std::string> names = {kQwen3};
  if (flags.all) names.insert(names.end(), {"qwen2-57b-a14b", "mixtral-8x7b"});
  for (const std::string& name : names) {
    const DenseShape shape = dense_shape(name);
    if (flags.router) {
      measure_router(report, shape);
      continue;
    }
    measure_attention(report, shape, flags);
    if (!flags.block) measure_products(report, shape);
  }
  if (flags.block || flags.router) return report.take();
  measure_prefill(report, dense_shape(kQwen3));
  measure_small(report, dense_shape(kQwen3));
  return report.take();
}

}  // namespace

Subcommand add_dense(CLI::App& app) {
  const auto flags = std::make_shared<DenseFlags>();
  CLI::App* parser =
      app.add_subcommand("dense", "dense kernels on the GPU against the time to read their bytes");
  parser->add_flag("--all", flags->all, "every model's dimensions, not only Qwen3-30B-A3B's");
  parser->add_flag("--block", flags->block, "attention and its block alone");
  parser->add_flag("--router", flags->router, "norm and router's product alone");
  parser->add_flag("--timeline", flags->timeline, "print when the attention block passes what");
  parser->add_option("--context", flags->contexts, "tokens of each sequence, for the block and the layer")
      ->check(CLI::Range(1U, 131072U))
      ->capture_default_str();
  return {parser, [flags] { return run(*flags); }};
}

}  // namespace lynx
