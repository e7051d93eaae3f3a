#include "tests/common/net/tls_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

namespace lynx {
namespace {

template <typename Write>
void write_pem(const std::string& path, Write write) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  write(file.get());
}

}  // namespace

CertificateFiles make_certificate(const std::string& directory) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_sign(certificate.get(), key.get(), EVP_sha256());

  CertificateFiles files{directory + "lynx_test_cert.pem", directory + "lynx_test_key.pem"};
  write_pem(files.certificate, [&](FILE* file) { PEM_write_X509(file, certificate.get()); });
  write_pem(files.key, [&](FILE* file) {
    PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return files;
}

TlsClient::TlsClient(std::uint16_t port)
    : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
      session_(SSL_new(context_.get()), SSL_free),
      fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
  SSL_set_fd(session_.get(), fd_);
  connected_ = SSL_connect(session_.get()) == 1;
}

TlsClient::~TlsClient() { ::close(fd_); }

void TlsClient::send(const std::string& bytes) {
  SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size()));
}

std::string TlsClient::read_to_end() {
  std::string out;
  char buffer[16384];
  for (int n = 1; n > 0;) {
    n = SSL_read(session_.get(), buffer, sizeof buffer);
    if (n > 0) out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}

}  // namespace lynx
