// Accepts one connection after another on loopback, reads a request header, answers with fixed bytes and
// closes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace lynx {

class RawServer {
 public:
  explicit RawServer(std::string answer)
      : answer_(std::move(answer)), fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0)
      throw std::runtime_error("RawServer: no port on loopback");
    ::listen(fd_, 16);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~RawServer() {
    ::shutdown(fd_, SHUT_RDWR);  // wakes accept()
    thread_.join();
    ::close(fd_);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  void serve() {
    for (int client = ::accept(fd_, nullptr, nullptr); client >= 0;
         client = ::accept(fd_, nullptr, nullptr)) {
      char byte = 0;
      std::string request;
      while (!request.ends_with("\r\n\r\n") && ::recv(client, &byte, 1, 0) == 1) request += byte;
      ::send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      ::close(client);
    }
  }

  const std::string answer_;
  const int fd_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace lynx
