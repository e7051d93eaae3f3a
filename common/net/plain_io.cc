#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/net/socket_io.h"

namespace lynx {
namespace {

class PlainIo final : public SocketIo {
 public:
  explicit PlainIo(int fd) : fd_(fd) {}

  IoResult read(char* into, std::size_t capacity) override {
    const ssize_t n = ::recv(fd_, into, capacity, 0);
    if (n == 0) return {IoResult::State::kEnd};
    return result(n, IoResult::State::kWantRead);
  }

  IoResult write(std::string_view bytes) override {
    return result(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), IoResult::State::kWantWrite);
  }

  bool has_buffered_input() const override { return false; }
  void shutdown_write() override { ::shutdown(fd_, SHUT_WR); }

 private:
  static IoResult result(ssize_t n, IoResult::State blocked) {
    if (n > 0) return {IoResult::State::kOk, static_cast<std::size_t>(n)};
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {blocked};
    return {IoResult::State::kFailed, 0, std::strerror(errno)};
  }

  const int fd_;
};

}  // namespace

std::unique_ptr<SocketIo> plain_io(int fd) { return std::make_unique<PlainIo>(fd); }

}  // namespace lynx
