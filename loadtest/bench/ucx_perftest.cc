#include "loadtest/bench/ucx_perftest.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "loadtest/bench/child_process.h"

namespace lynx {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kPatience = 60s;  // on a crowded machine its server is long in coming

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

std::vector<std::string> environment_for(const std::string& transport) {
  if (transport == "shm") return {"UCX_TLS=posix", "UCX_POSIX_ERROR_HANDLING=y", "UCX_RNDV_THRESH=0"};
  return {"UCX_TLS=tcp", "UCX_NET_DEVICES=lo", "UCX_RNDV_THRESH=0"};
}

// The last line: iterations, latency (typical, average, overall), MB/s (average, overall), messages/s (the
// same).
double rate_of(const std::string& line) {
  std::istringstream in(line);
  double iterations = 0, typical = 0, average = 0, overall = 0, rate_average = 0, rate_overall = 0;
  in >> iterations >> typical >> average >> overall >> rate_average >> rate_overall;
  return in ? rate_overall * 1024 * 1024 : 0;
}

}  // namespace

double ucx_perftest_rate(const PerftestRun& run) {
  if (!on_path("ucx_perftest"))
    throw std::runtime_error("ucx_perftest is not on the PATH: install ucx-utils");
  std::vector<std::string> common{
      "-p", std::to_string(free_loopback_port()),  "-t", "ucp_am_bw",
      "-s", std::to_string(run.message_bytes),     "-n", std::to_string(run.messages),
      "-w", std::to_string(run.messages / 10 + 1), "-f"};
  if (run.error_handling) common.emplace_back("-e");
  std::vector<std::string> server{"ucx_perftest"}, client{"ucx_perftest", "127.0.0.1"};
  server.insert(server.end(), common.begin(), common.end());
  client.insert(client.end(), common.begin(), common.end());
  ChildProcess receiver(server, environment_for(run.transport));
  // The server does not say when it listens; a client that comes too early is refused, says nothing and comes
  // again.
  for (const auto give_up = std::chrono::steady_clock::now() + kPatience;
       std::chrono::steady_clock::now() < give_up;) {
    std::this_thread::sleep_for(50ms);
    ChildProcess sender(client, environment_for(run.transport));
    std::string last;
    while (auto line = sender.read_line(60s)) last = *line;
    if (const double rate = rate_of(last); rate > 0) return rate;
  }
  throw std::runtime_error("ucx_perftest gave no result in " + std::to_string(kPatience.count()) + " s");
}

}  // namespace lynx
