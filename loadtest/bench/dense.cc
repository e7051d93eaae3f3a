// lynx-bench dense: the kernels of a step other than routing and experts, on the GPU, against the time to
// read what they must.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "kernels/bench/device_roofline.h"
#include "loadtest/bench/dense_chain.h"
#include "loadtest/bench/small_ops.h"
#include "loadtest/bench/subcommands.h"

namespace lynx {
namespace {

using cuda::DenseShape;

const DenseShape kQwen3{"qwen3-30b-a3b", 2048, 32, 4, 128, 128, 151936};
const DenseShape kQwen2{"qwen2-57b-a14b", 3584, 28, 4, 128, 64, 151936};
const DenseShape kMixtral{"mixtral-8x7b", 4096, 32, 8, 128, 8, 32000};
constexpr std::uint32_t kContext = 1024;
constexpr std::uint32_t kPrompt = 4096;

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

void measure_products(Report& report, const DenseShape& s) {
  measure_gemm(report, s.name + ".qkv", s.qkv_size(), s.hidden, false);
  measure_gemm(report, s.name + ".o", s.hidden, s.q_size(), true);
  measure_gemm(report, s.name + ".router", s.experts, s.hidden, false);
  measure_gemm(report, s.name + ".head", s.vocab, s.hidden, false);
}

void measure_attention(Report& report, const DenseShape& s) {
  for (const std::uint32_t rows : {1U, 16U, 32U, 64U}) {
    const cuda::KvLayers kv(s, rows, kContext);
    report.add_read(s.name + ".attention.c1024.b" + std::to_string(rows),
                    cuda::decode_attention_us(s, kv, rows), kv.bytes_per_layer());
    const cuda::DenseChain chain(s, kv);
    report.add_read(s.name + ".dense_layer.b" + std::to_string(rows), chain.us(rows), chain.bytes(rows));
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

std::vector<BenchRow> run(bool all) {
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
  measure_products(report, kQwen3);
  measure_attention(report, kQwen3);
  measure_prefill(report, kQwen3);
  measure_small(report, kQwen3);
  if (!all) return report.take();
  for (const DenseShape& shape : {kQwen2, kMixtral}) {
    measure_products(report, shape);
    measure_attention(report, shape);
  }
  return report.take();
}

}  // namespace

Subcommand add_dense(CLI::App& app) {
  const auto all = std::make_shared<bool>(false);
  CLI::App* parser =
      app.add_subcommand("dense", "dense kernels on the GPU against the time to read their bytes");
  parser->add_flag("--all", *all, "every model's dimensions, not only Qwen3-30B-A3B's");
  return {parser, [all] { return run(*all); }};
}

}  // namespace lynx
