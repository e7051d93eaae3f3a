#include "loadtest/bench/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "loadtest/bench/thread_time.h"

namespace lynx {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWriteTime{500};

void check(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string("loopback: ") + what + ": " + std::strerror(errno));
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) { check(fd >= 0, "socket"); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct Connection {
  Socket near;
  Socket far;
};

Connection connect_loopback() {
  const Socket listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  check(::bind(listener.fd(), generic, size) == 0, "bind");
  check(::listen(listener.fd(), 1) == 0, "listen");
  check(::getsockname(listener.fd(), generic, &size) == 0, "getsockname");
  Socket near(::socket(AF_INET, SOCK_STREAM, 0));
  check(::connect(near.fd(), generic, size) == 0, "connect");
  Socket far(::accept(listener.fd(), nullptr, nullptr));
  const int on = 1;
  for (const int fd : {near.fd(), far.fd()})
    check(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "TCP_NODELAY");
  return {std::move(near), std::move(far)};
}

// Reads whatever comes on any of them until all have closed; hands each piece to `got`.
template <typename Got>
void drain(const std::vector<int>& fds, const Got& got) {
  std::vector<pollfd> polls;
  for (const int fd : fds) polls.push_back({fd, POLLIN, 0});
  std::vector<char> buffer(1 << 16);
  while (!polls.empty() && ::poll(polls.data(), polls.size(), -1) > 0) {
    for (auto& one : polls) {
      if (one.revents == 0) continue;
      const auto size = ::read(one.fd, buffer.data(), buffer.size());
      size > 0 ? got(one.fd, buffer.data(), static_cast<std::size_t>(size)) : void(one.events = 0);
    }
    std::erase_if(polls, [](const pollfd& one) { return one.events == 0; });
  }
}

// Sends the messages at once and notes when each is back. False when the connection has broken.
bool echo_burst(int fd, std::size_t message_bytes, std::size_t burst, std::vector<double>& out) {
  const std::string messages(message_bytes * burst, 'x');
  std::vector<char> back(messages.size());
  const auto sent = Steady::now();
  if (::send(fd, messages.data(), messages.size(), MSG_NOSIGNAL) < 0) return false;
  std::size_t counted = 0;
  for (std::size_t got = 0; got < messages.size();) {
    const auto size = ::read(fd, back.data(), back.size());
    if (size <= 0) return false;
    got += static_cast<std::size_t>(size);
    const double taken = std::chrono::duration<double>(Steady::now() - sent).count();
    for (; counted < got / message_bytes; ++counted) out.push_back(taken);
  }
  return true;
}

}  // namespace

double loopback_writes_per_core_second(std::size_t message_bytes, std::size_t connections) {
  std::vector<Connection> all;
  std::vector<int> far;
  for (std::size_t i = 0; i < connections; ++i) {
    all.push_back(connect_loopback());
    far.push_back(all.back().far.fd());
  }
  std::thread reader([&far] { drain(far, [](int, const char*, std::size_t) {}); });
  const std::string message(message_bytes, 'x');
  const double cpu_before = thread_cpu_seconds();
  const auto end = Steady::now() + kWriteTime;
  std::size_t written = 0;
  while (Steady::now() < end)
    for (const auto& connection : all)
      if (::write(connection.near.fd(), message.data(), message.size()) > 0) ++written;
  const double cpu = thread_cpu_seconds() - cpu_before;
  for (const auto& connection : all) ::shutdown(connection.near.fd(), SHUT_WR);
  reader.join();
  return static_cast<double>(written) / cpu;
}

std::vector<double> loopback_echo_seconds(std::size_t message_bytes, std::size_t burst,
                                          std::chrono::microseconds period, std::chrono::milliseconds time) {
  const Connection connection = connect_loopback();
  std::thread echo([&connection] {
    drain({connection.far.fd()}, [](int fd, const char* data, std::size_t size) {
      static_cast<void>(::send(fd, data, size, MSG_NOSIGNAL));  // a reader that has gone misses it
    });
    ::shutdown(connection.far.fd(), SHUT_WR);
  });
  std::vector<double> out;
  const auto end = Steady::now() + time;
  for (auto at = Steady::now(); at < end; at += period) {
    std::this_thread::sleep_until(at);
    if (!echo_burst(connection.near.fd(), message_bytes, burst, out)) break;
  }
  ::shutdown(connection.near.fd(), SHUT_WR);
  echo.join();
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace lynx
