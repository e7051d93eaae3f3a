#include "tests/e2e/cluster.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "loadtest/bench/child_process.h"
#include "tests/e2e/api_client.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

std::string new_log_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "lynx-e2e-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  return pattern;
}

std::string binary(const std::string& name) { return binary_path("bin/" + name); }

// What an environment variable asks of workers: one value for all, or "PREFILL,DECODE".
std::optional<std::string> of_role(const char* variable, const std::string& role) {
  const char* chosen = std::getenv(variable);
  if (chosen == nullptr) return std::nullopt;
  const std::string values(chosen);
  const auto comma = values.find(',');
  if (comma == std::string::npos) return values;
  return role == "prefill" ? values.substr(0, comma) : values.substr(comma + 1);
}

void append(std::vector<std::string>& argv, const std::vector<std::string>& more) {
  argv.insert(argv.end(), more.begin(), more.end());
}

}  // namespace

std::string model_folder() { return source_path("deploy/model"); }

std::string backend() {
  const char* chosen = std::getenv("LYNX_TEST_BACKEND");
  return chosen == nullptr ? "cpu" : chosen;
}

std::string kv_path(const std::string& role) { return of_role("LYNX_TEST_KV_PATH", role).value_or("auto"); }

int slowdown() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 8;
#else
  return 1;
#endif
}

Cluster::Cluster(const ClusterOptions& options) : log_folder_(new_log_folder()) {
  const std::uint16_t api = free_loopback_port(), control = free_loopback_port();
  router_ = {"router", binary("lynx-router"), api, {}, {}};
  router_.argv = {router_.binary,      "--model.path",   model_folder(),         "--http.port",
                  std::to_string(api), "--control.port", std::to_string(control)};
  append(router_.argv, options.router_flags);

  const auto worker = [&](const std::string& role, int index, const std::vector<std::string>& flags) {
    Worker w{role + "-" + std::to_string(index), binary("lynx-" + role), free_loopback_port(), {}, {}};
    if (const auto gpu = of_role("LYNX_TEST_GPUS", role))
      w.argv = {"/usr/bin/env", "CUDA_VISIBLE_DEVICES=" + *gpu};
    append(w.argv, {w.binary, "--model.path", model_folder(), "--worker.name", w.name, "--http.port",
                    std::to_string(w.http_port), "--routers", "127.0.0.1:" + std::to_string(control),
                    "--ucx.transport", options.transport, "--threads", "1", "--backend", backend(),
                    "--kv.path", kv_path(role)});
    append(w.argv, flags);
    return w;
  };
  for (int i = 0; i < options.prefills; ++i) prefills_.push_back(worker("prefill", i, options.prefill_flags));
  for (int i = 0; i < options.decodes; ++i) {
    decodes_.push_back(worker("decode", i, options.decode_flags));
    append(decodes_.back().argv, {"--lynx.policy", options.policy});
  }

  start(router_);
  for (Worker* w : workers()) start(*w);
  if (!wait_ready(kPatience))
    throw std::runtime_error("the cluster did not get ready; logs in " + log_folder_);
}

Cluster::~Cluster() {
  for (Worker* w : workers()) w->lives.clear();
  router_.lives.clear();
}

std::vector<Worker*> Cluster::workers() {
  std::vector<Worker*> all;
  for (Worker& w : prefills_) all.push_back(&w);
  for (Worker& w : decodes_) all.push_back(&w);
  return all;
}

void Cluster::start(Worker& worker) {
  worker.lives.emplace_back(worker.argv, log_folder_ + "/" + worker.name + ".log");
}

void Cluster::kill(Worker& worker) {
  worker.process().signal(SIGKILL);
  worker.process().wait(std::chrono::seconds(10));
}

void Cluster::restart(Worker& worker) {
  kill(worker);
  start(worker);
}

bool Cluster::wait_ready(std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto ready = [](const Worker& w) { return get(w.http_port, "/health/ready").status == 200; };
  while (std::chrono::steady_clock::now() < deadline) {
    bool all = ready(router_);
    for (Worker* w : workers()) all = all && ready(*w);
    if (all) return true;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

std::string Cluster::gone() {
  std::string all;
  for (Worker* w : workers())
    if (!w->process().running()) all += w->name + " has ended: see " + w->process().log_file() + "; ";
  return all;
}

nlohmann::json Cluster::debug_kv(const Worker& worker) {
  const ApiReply reply = get(worker.http_port, "/debug/kv");
  return nlohmann::json::parse(reply.body, nullptr, false);
}

bool Cluster::all_free(std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    bool clean = true;
    for (Worker* w : workers()) {
      if (!w->process().running()) continue;
      const auto kv = debug_kv(*w);
      clean = clean && kv.is_object() && kv.contains("states") && kv["states"]["free"] == kv["blocks"];
    }
    if (clean || std::chrono::steady_clock::now() >= deadline) return clean;
    std::this_thread::sleep_for(kPoll);
  }
}

double Cluster::taken_up() const {
  return metric(router_, "lynx_retries_total") + metric(router_, "lynx_resumes_total");
}

double Cluster::metric(const Worker& worker, const std::string& name, const std::string& label_part) {
  std::istringstream lines(get(worker.http_port, "/metrics", kPatience).body);
  double sum = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool named = line.starts_with(name + "{") || line.starts_with(name + " ");
    if (!named || line.find(label_part) == std::string::npos) continue;
    sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return sum;
}

}  // namespace lynx::testing
