#include "tests/e2e/service_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>
#include <utility>

namespace lynx::testing {

ServiceProcess::ServiceProcess(const std::vector<std::string>& argv, const std::string& log_file)
    : log_file_(log_file) {
  std::vector<char*> raw;
  raw.reserve(argv.size() + 1);
  for (const std::string& arg : argv) raw.push_back(const_cast<char*>(arg.c_str()));
  raw.push_back(nullptr);
  const int log = ::open(log_file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) throw std::runtime_error("cannot open " + log_file);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execv(raw[0], raw.data());
    ::_exit(127);
  }
  ::close(log);
  if (pid_ < 0) throw std::runtime_error("cannot fork for " + argv[0]);
}

ServiceProcess::~ServiceProcess() { reap(); }

ServiceProcess::ServiceProcess(ServiceProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(other.status_), log_file_(std::move(other.log_file_)) {}

ServiceProcess& ServiceProcess::operator=(ServiceProcess&& other) noexcept {
  if (this != &other) {
    reap();
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
    log_file_ = std::move(other.log_file_);
  }
  return *this;
}

void ServiceProcess::signal(int number) {
  if (running()) ::kill(pid_, number);
}

bool ServiceProcess::running() { return pid_ > 0 && !wait(std::chrono::milliseconds(0)); }

std::optional<int> ServiceProcess::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!status_ && pid_ > 0) {
    int raw = 0;
    if (::waitpid(pid_, &raw, WNOHANG) == pid_) {
      status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
      break;
    }
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status_;
}

void ServiceProcess::reap() {
  if (pid_ <= 0 || status_) return;
  ::kill(pid_, SIGKILL);
  ::kill(pid_, SIGCONT);
  wait(std::chrono::seconds(10));
}

}  // namespace lynx::testing
