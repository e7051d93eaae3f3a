#include "loadtest/bench/ucx_perftest.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "loadtest/bench/child_process.h"

namespace lynx {

namespace {

using namespace std::chrono_literals;

std::string free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  if (!bound) throw std::runtime_error("no free port for ucx_perftest");
  return std::to_string(ntohs(address.sin_port));
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
  std::vector<std::string> common{"-p", free_port(),
                                  "-t", "ucp_am_bw",
                                  "-s", std::to_string(run.message_bytes),
                                  "-n", std::to_string(run.messages),
                                  "-w", std::to_string(run.messages / 10 + 1),
                                  "-f"};
  if (run.error_handling) common.emplace_back("-e");
  std::vector<std::string> server{"ucx_perftest"}, client{"ucx_perftest", "127.0.0.1"};
  server.insert(server.end(), common.begin(), common.end());
  client.insert(client.end(), common.begin(), common.end());
  ChildProcess receiver(server, environment_for(run.transport));
  // The server does not say when it listens; a client that comes too early is refused, says nothing and comes
  // again.
  for (const auto give_up = std::chrono::steady_clock::now() + 5s;
       std::chrono::steady_clock::now() < give_up;) {
    std::this_thread::sleep_for(50ms);
    ChildProcess sender(client, environment_for(run.transport));
    std::string last;
    while (auto line = sender.read_line(60s)) last = *line;
    if (const double rate = rate_of(last); rate > 0) return rate;
  }
  throw std::runtime_error("ucx_perftest gives no result: is ucx-utils installed?");
}

}  // namespace lynx
