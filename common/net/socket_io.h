// Non-blocking bytes of one connected socket: the seam between plain TCP and TLS. Internal to common/net.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lynx {

struct IoResult {
  enum class State { kOk, kWantRead, kWantWrite, kEnd, kFailed };
  State state = State::kOk;
  std::size_t bytes = 0;  // with kOk, at least 1
  std::string error{};    // with kFailed
};

class SocketIo {
 public:
  virtual ~SocketIo() = default;
  virtual IoResult read(char* into, std::size_t capacity) = 0;
  virtual IoResult write(std::string_view bytes) = 0;
  virtual bool has_buffered_input() const = 0;  // read() gives more, though the socket itself is not readable
  virtual void shutdown_write() = 0;
};

std::unique_ptr<SocketIo> plain_io(int fd);

// The server's side of TLS: certificate and key, read once.
class TlsContext {
 public:
  // Throws std::runtime_error naming the file that cannot be used.
  TlsContext(const std::string& certificate_file, const std::string& key_file);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  std::unique_ptr<SocketIo> accept(int fd) const;  // the handshake runs inside read() and write()

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx
