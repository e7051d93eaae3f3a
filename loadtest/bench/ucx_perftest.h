// The ceiling of the KV rows: what UCX's own benchmark reaches between two processes of this machine.
#pragma once

#include <cstddef>
#include <string>

namespace lynx {

struct PerftestRun {
  std::string transport;  // tcp or shm, limited as UcxTransport limits it
  std::size_t message_bytes = 0;
  std::size_t messages = 0;
  bool error_handling =
      true;  // endpoints that survive a lost peer: UCX gives up its put path over TCP for them
};

// Bytes a second of ucp_am_bw by rendezvous. Throws std::runtime_error when ucx_perftest is missing or says
// nothing.
double ucx_perftest_rate(const PerftestRun& run);

}  // namespace lynx
