#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>

#include "common/core/read_file.h"
#include "common/net/socket_io.h"

namespace lynx {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};

std::string last_error() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "TLS failure" : std::string("TLS: ") + reason;
}

class TlsIo final : public SocketIo {
 public:
  explicit TlsIo(std::unique_ptr<SSL, FreeSession> session) : session_(std::move(session)) {}

  IoResult read(char* into, std::size_t capacity) override {
    ERR_clear_error();
    return result(SSL_read(session_.get(), into, clamp(capacity)));
  }
  IoResult write(std::string_view bytes) override {
    ERR_clear_error();
    return result(SSL_write(session_.get(), bytes.data(), clamp(bytes.size())));
  }
  bool has_buffered_input() const override { return SSL_pending(session_.get()) > 0; }
  void shutdown_write() override {
    if (SSL_is_init_finished(session_.get()) != 0 && !failed_) SSL_shutdown(session_.get());
    ERR_clear_error();
  }

 private:
  static int clamp(std::size_t size) {
    return static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
  }

  IoResult result(int n) {
    if (n > 0) return {IoResult::State::kOk, static_cast<std::size_t>(n)};
    switch (SSL_get_error(session_.get(), n)) {
      case SSL_ERROR_WANT_READ:
        return {IoResult::State::kWantRead};
      case SSL_ERROR_WANT_WRITE:
        return {IoResult::State::kWantWrite};
      case SSL_ERROR_ZERO_RETURN:
        return {IoResult::State::kEnd};
    }
    failed_ = true;
    return {IoResult::State::kFailed, 0, last_error()};
  }

  std::unique_ptr<SSL, FreeSession> session_;
  bool failed_ = false;
};

}  // namespace

struct TlsContext::Impl {
  std::unique_ptr<SSL_CTX, FreeContext> context;
};

TlsContext::TlsContext(const std::string& certificate_file, const std::string& key_file)
    : impl_(std::make_unique<Impl>()) {
  impl_->context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = impl_->context.get();
  if (context == nullptr) throw std::runtime_error(last_error());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // The output buffer may move between two tries of the same bytes.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  for (const std::string& file : {certificate_file, key_file})
    static_cast<void>(read_file(file));  // OpenSSL would not say why not
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1)
    throw std::runtime_error("TLS certificate '" + certificate_file + "': " + last_error());
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    throw std::runtime_error("TLS key '" + key_file + "': " + last_error());
}

TlsContext::~TlsContext() = default;

std::unique_ptr<SocketIo> TlsContext::accept(int fd) const {
  std::unique_ptr<SSL, FreeSession> session(SSL_new(impl_->context.get()));
  if (session == nullptr || SSL_set_fd(session.get(), fd) != 1) throw std::bad_alloc();
  SSL_set_accept_state(session.get());
  return std::make_unique<TlsIo>(std::move(session));
}

}  // namespace lynx
