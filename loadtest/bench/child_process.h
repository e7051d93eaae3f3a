// A child process with its stdin and stdout on pipes. Killed and reaped when the object goes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lynx {

class ChildProcess {
 public:
  // command[0] is searched in PATH; environment ("NAME=value") is added to this process's. Throws
  // std::runtime_error.
  explicit ChildProcess(std::vector<std::string> command, std::vector<std::string> environment = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void kill_now();  // SIGKILL, and reaps
  void write_line(const std::string& line) const;
  // The next line of its stdout; nothing when none came in time or it has ended.
  std::optional<std::string> read_line(std::chrono::milliseconds timeout);

 private:
  pid_t pid_ = -1;
  int in_ = -1;   // its stdin
  int out_ = -1;  // its stdout
  std::string pending_;
};

// A TCP port of 127.0.0.1 that was free a moment ago. Throws std::runtime_error.
std::uint16_t free_loopback_port();

}  // namespace lynx
