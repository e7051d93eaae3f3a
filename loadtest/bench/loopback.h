// What loopback TCP does on this machine without any of our code in between: the ceilings of the router's
// rows.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace lynx {

// Messages that one core writes per second, one system call each, over so many connections in turn. CPU time
// of the writer alone counts; a second thread reads. Throws std::runtime_error when sockets fail.
double loopback_writes_per_core_second(std::size_t message_bytes, std::size_t connections);

// Seconds until a message comes back from a thread that echoes it, ascending, for bursts of so many messages
// every period. Throws std::runtime_error when sockets fail.
std::vector<double> loopback_echo_seconds(std::size_t message_bytes, std::size_t burst,
                                          std::chrono::microseconds period, std::chrono::milliseconds time);

}  // namespace lynx
