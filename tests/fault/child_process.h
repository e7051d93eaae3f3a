// A child process with its stdin and stdout on pipes. Killed and reaped when the object goes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lynx::fault {

class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> command);  // throws std::runtime_error
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

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

}  // namespace lynx::fault
