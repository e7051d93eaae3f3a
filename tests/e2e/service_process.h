// A service under test: started with its output in a log file, killed and reaped when the object goes. It is
// killed, too, when the thread that started it ends, so that nothing outlives a test that crashes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lynx::testing {

class ServiceProcess {
 public:
  // Throws std::runtime_error when it cannot be started.
  ServiceProcess(const std::vector<std::string>& argv, const std::string& log_file);
  ~ServiceProcess();
  ServiceProcess(ServiceProcess&& other) noexcept;
  ServiceProcess& operator=(ServiceProcess&& other) noexcept;

  void signal(int number);
  bool running();
  // The exit status (128 + signal when killed), or nothing when it still runs after the timeout.
  std::optional<int> wait(std::chrono::milliseconds timeout);
  pid_t pid() const { return pid_; }
  const std::string& log_file() const { return log_file_; }

 private:
  void reap();

  pid_t pid_ = -1;
  std::optional<int> status_;
  std::string log_file_;
};

}  // namespace lynx::testing
