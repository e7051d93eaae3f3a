// lynx-bench start: how soon each process is ready, and what it holds in memory when idle.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/net/http_client.h"
#include "loadtest/bench/child_process.h"
#include "loadtest/bench/subcommands.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr double kReadySeconds = 2;
constexpr double kRouterMegabytes = 64;
constexpr double kWorkerMegabytes = 100;  // besides weights and KV pool
constexpr milliseconds kGiveUp{30'000};
constexpr milliseconds kIdle{1000};  // after the last start, before memory is read

struct StartFlags {
  std::string model = "deploy/model";
  std::uint64_t kv_memory_mb = 256;
};

bool ready(std::uint16_t port) {
  EventLoop loop;
  HttpClient client(loop, "127.0.0.1", port);
  HttpCall call;
  call.target = "/health/ready";
  call.timeout = milliseconds(1000);
  bool yes = false;
  const auto handle = client.send(std::move(call), nullptr, [&](Result<HttpReply> reply) {
    yes = reply.ok() && reply->status == 200;
    loop.stop();
  });
  loop.run();
  return yes;
}

// From the fork to the first "ready".
double seconds_to_ready(std::uint16_t port, steady_clock::time_point since) {
  while (!ready(port)) {
    if (steady_clock::now() - since > kGiveUp) throw std::runtime_error("a process is not ready after 30 s");
    std::this_thread::sleep_for(milliseconds(2));
  }
  return std::chrono::duration<double>(steady_clock::now() - since).count();
}

double resident_megabytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:" && status >> word) return std::stod(word) / 1024;
  throw std::runtime_error("a process is gone");
}

double weight_megabytes(const std::string& folder) {
  double bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") bytes += static_cast<double>(entry.file_size());
  return bytes / (1 << 20);
}

struct Started {
  std::string name;
  std::unique_ptr<ChildProcess> process;
  std::uint16_t port = 0;
  double ready_s = 0;
};

Started start(const std::string& name, std::vector<std::string> flags) {
  Started out{name, nullptr, free_loopback_port(), 0};
  std::vector<std::string> command{
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / ("lynx-" + name), "--log_level",
      "error", "--http.port", std::to_string(out.port)};
  command.insert(command.end(), flags.begin(), flags.end());
  const auto since = steady_clock::now();
  out.process = std::make_unique<ChildProcess>(command);
  // A router is ready when workers are there; that it lives is what can be timed alone.
  if (name != "router") out.ready_s = seconds_to_ready(out.port, since);
  return out;
}

BenchRow row(const std::string& name, const std::string& unit, double value, double ceiling,
             const std::string& is) {
  BenchRow out;
  out.name = name;
  out.unit = unit;
  out.value = value;
  out.ceiling = ceiling;
  out.ceiling_is = is;
  out.target = "<= 1";
  return out;
}

std::vector<BenchRow> run(const StartFlags& flags) {
  const std::uint16_t control = free_loopback_port();
  const auto since = steady_clock::now();
  std::vector<Started> all;
  all.push_back(start("router", {"--model.path", flags.model, "--control.port", std::to_string(control)}));
  for (const char* role : {"prefill", "decode"})
    all.push_back(
        start(role, {"--model.path", flags.model, "--routers", "127.0.0.1:" + std::to_string(control),
                     "--kv.memory_mb", std::to_string(flags.kv_memory_mb)}));
  const double whole = seconds_to_ready(all[0].port, since);

  std::vector<BenchRow> rows;
  for (const Started& one : all)
    if (one.ready_s > 0)
      rows.push_back(
          row("start." + one.name, "s", one.ready_s, kReadySeconds, "start to ready that is allowed"));
  rows.push_back(row("start.all", "s", whole, kReadySeconds * 2,
                     "router, then prefill, then decode, one after the other"));

  std::this_thread::sleep_for(kIdle);
  const double worker =
      weight_megabytes(flags.model) + static_cast<double>(flags.kv_memory_mb) + kWorkerMegabytes;
  for (const Started& one : all) {
    const bool router = one.name == "router";
    rows.push_back(row("idle_rss." + one.name, "MB", resident_megabytes(one.process->pid()),
                       router ? kRouterMegabytes : worker,
                       router ? "allowed" : "weights + KV pool + 100 MB"));
  }
  return rows;
}

}  // namespace

Subcommand add_start(CLI::App& app) {
  auto flags = std::make_shared<StartFlags>();
  CLI::App* parser = app.add_subcommand("start", "start to ready, and idle memory, of each process");
  parser->add_option("--model", flags->model, "model folder");
  parser->add_option("--kv-memory-mb", flags->kv_memory_mb, "KV pool of each worker");
  return {parser, [flags] { return run(*flags); }};
}

}  // namespace lynx
