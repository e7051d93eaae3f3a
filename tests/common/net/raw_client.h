// A blocking TCP client on loopback that sends exactly the bytes it is told to. Nothing waits longer than
// kPatience.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/patience.h"

namespace lynx {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{std::chrono::seconds(kPatience).count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;  // a process that was stopped goes on
      if (n <= 0) return;                     // the server may close first: the reply tells
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  // Everything up to and including the text; what there was when the connection ended or nothing came any
  // more.
  std::string read_until(std::string_view text) {
    while (in_.find(text) == std::string::npos && read_some()) {
    }
    const std::size_t at = in_.find(text);
    return take(at == std::string::npos ? in_.size() : at + text.size());
  }

  std::string read_to_end() {
    while (read_some()) {
    }
    return take(in_.size());
  }

  // One whole response with a Content-Length.
  std::string read_response() {
    std::string head = read_until("\r\n\r\n");
    const std::size_t at = head.find("Content-Length: ");
    const std::size_t length = at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
    while (in_.size() < length && read_some()) {
    }
    return head + take(length);
  }

  bool at_end() { return in_.empty() && !read_some() && ended_; }
  void shutdown_write() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {  // RST instead of FIN
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  bool read_some() {
    char buffer[16384];
    ssize_t n = -1;
    do {
      n = ::recv(fd_, buffer, sizeof buffer, 0);
    } while (n < 0 && errno == EINTR);  // a process that was stopped goes on
    if (n == 0 || (n < 0 && errno == ECONNRESET)) ended_ = true;
    if (n <= 0) return false;
    in_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  std::string take(std::size_t size) {
    size = std::min(size, in_.size());
    std::string out = in_.substr(0, size);
    in_.erase(0, size);
    return out;
  }

  int fd_;
  std::string in_;
  bool ended_ = false;
};

}  // namespace lynx
