// lynx-bench kv: KV pushes to another process against ucx_perftest on the same transport and size; with
// --device cuda, hand-overs between GPUs by each path of kv.path against the driver's own copy.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef LYNX_CUDA
#include "common/transport/ucx_devices.h"
#include "loadtest/bench/kv_between_gpus.h"
#endif
#include "common/core/log.h"
#include "loadtest/bench/kv_pushes.h"
#include "loadtest/bench/subcommands.h"
#include "loadtest/bench/ucx_perftest.h"

namespace lynx {

namespace {

constexpr std::size_t kGuessBytesPerMs = 2'000'000;  // only sizes ucx_perftest's run

struct KvFlags {
  std::vector<std::string> transports{"tcp", "shm"};
  std::vector<std::size_t> kilobytes{64, 256, 1024, 4096};
  std::uint32_t rounds = 3;
  std::uint32_t milliseconds = 500;
  std::string receive;
  std::string device = "cpu";
  int receiver_gpu = 0;
  std::string receive_on_gpu;
};

// Both sides take turns, and each keeps its best: what else the machine does hits one round, not the answer.
BenchRow measure(const KvFlags& flags, const std::string& transport, std::size_t kilobytes) {
  BenchRow row;
  row.name = "kv." + transport + "." + std::to_string(kilobytes) + "k";
  row.unit = "GB/s";
  row.ceiling_is = "ucx_perftest ucp_am_bw, rendezvous, with error handling as KV needs it";
  row.target = ">= 0.70";
  const std::size_t bytes = kilobytes * 1024;
  const std::size_t messages = std::max<std::size_t>(flags.milliseconds * kGuessBytesPerMs / bytes, 20);
  double unguarded = 0;
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    row.ceiling = std::max(row.ceiling, ucx_perftest_rate({transport, bytes, messages, true}) / 1e9);
    row.value = std::max(row.value,
                         kv_push_rate(transport, bytes, std::chrono::milliseconds(flags.milliseconds)) / 1e9);
    unguarded = std::max(unguarded, ucx_perftest_rate({transport, bytes, messages, false}) / 1e9);
  }
  row.details = {{"perftest_without_error_handling", unguarded}};
  return row;
}

#ifdef LYNX_CUDA
BenchRow measure(BetweenGpus run, std::uint32_t rounds, std::chrono::milliseconds time) {
  BenchRow row;
  row.name = "kv." + std::string(to_string(run.path)) + "." + run.transport + "." +
             std::to_string(run.push_kilobytes) + "k";
  row.unit = "GB/s";
  row.ceiling_is =
      run.receiver_gpu == 0 ? "cudaMemcpyAsync within the GPU" : "cudaMemcpyPeerAsync between the GPUs";
  for (std::uint32_t round = 0; round < rounds; ++round) {
    row.value = std::max(row.value, hand_over_rate(run, time) / 1e9);
    row.ceiling = std::max(row.ceiling, device_copy_rate(run) / 1e9);
  }
  return row;
}

std::vector<BenchRow> run_between_gpus(const KvFlags& flags) {
  std::vector<KvPath> paths{KvPath::kPinned};
  if (ucx_moves_device_memory()) {
    paths.push_back(KvPath::kDevice);
  } else {
    log::warn("UCX {} does not move device memory: the pinned path alone", ucx_version_name());
  }
  std::vector<BenchRow> rows;
  for (const std::string& transport : flags.transports) {
    for (const std::size_t kilobytes : flags.kilobytes) {
      for (const KvPath path : paths)
        rows.push_back(measure({path, transport, static_cast<std::uint32_t>(kilobytes), flags.receiver_gpu},
                               flags.rounds, std::chrono::milliseconds(flags.milliseconds)));
    }
  }
  return rows;
}

void receive_on_gpu(const std::string& flag) {  // as hand_over_rate wrote it
  const auto first = flag.find(',');
  const auto second = flag.find(',', first + 1);
  BetweenGpus run;
  run.path = flag.starts_with("device") ? KvPath::kDevice : KvPath::kPinned;
  run.transport = flag.substr(first + 1, second - first - 1);
  run.push_kilobytes = static_cast<std::uint32_t>(std::stoul(flag.substr(second + 1)));
  receive_between_gpus(run);
}
#else
std::vector<BenchRow> run_between_gpus(const KvFlags&) {
  throw std::runtime_error("--device cuda: this build has no CUDA code");
}
void receive_on_gpu(const std::string&) { throw std::runtime_error("this build has no CUDA code"); }
#endif

std::vector<BenchRow> run(const KvFlags& flags) {
  if (!flags.receive_on_gpu.empty()) {
    receive_on_gpu(flags.receive_on_gpu);
    return {};
  }
  if (!flags.receive.empty()) {
    receive_kv_pushes(flags.receive);
    return {};
  }
  if (flags.device == "cuda") return run_between_gpus(flags);
  std::vector<BenchRow> rows;
  for (const std::string& transport : flags.transports) {
    for (const std::size_t kilobytes : flags.kilobytes) {
      rows.push_back(measure(flags, transport, kilobytes));
      std::fprintf(stderr, "%s: %.2f of %.2f GB/s\n", rows.back().name.c_str(), rows.back().value,
                   rows.back().ceiling);
    }
  }
  return rows;
}

}  // namespace

Subcommand add_kv(CLI::App& app) {
  auto flags = std::make_shared<KvFlags>();
  CLI::App* parser = app.add_subcommand("kv", "KV pushes to another process against ucx_perftest");
  parser->add_option("--transport", flags->transports, "tcp, shm")->check(CLI::IsMember({"tcp", "shm"}));
  parser->add_option("--kilobytes", flags->kilobytes, "of one push, multiples of 64 up to 16384")
      ->check(CLI::Range(64, 16384));
  parser->add_option("--rounds", flags->rounds, "each side keeps its best round");
  parser->add_option("--milliseconds", flags->milliseconds, "of pushing in one round");
  parser->add_option("--device", flags->device, "cuda: between GPUs, by each path of kv.path")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  parser->add_option("--receiver-gpu", flags->receiver_gpu, "with cuda: which GPU receives; GPU 0 sends");
  parser->add_option("--receive-on-gpu", flags->receive_on_gpu)->group("");
  parser->add_option("--receive", flags->receive)->group("");  // the other process; not for people
  return {parser, [flags] { return run(*flags); }};
}

}  // namespace lynx
