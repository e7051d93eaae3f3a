// A self-signed certificate for localhost, and a blocking TLS client that asks one question. Loopback only.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace lynx {

struct CertificateFiles {
  std::string certificate;
  std::string key;
};

// Writes both as PEM files below the directory.
CertificateFiles make_certificate(const std::string& directory);

class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port);  // connects and shakes hands
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  void send(const std::string& bytes);
  std::string read_to_end();

 private:
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> session_;
  int fd_;
  bool connected_ = false;
};

}  // namespace lynx
