#include "common/net/cluster_secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <stdexcept>

namespace lynx {

Nonce random_nonce() {
  Nonce nonce{};
  if (RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) != 1)
    throw std::runtime_error("no randomness for the control link");
  return nonce;
}

Mac prove(std::string_view secret, std::string_view service, const Nonce& peer_nonce,
          const Nonce& own_nonce) {
  std::string text = "lynx";
  text += service;
  text.append(peer_nonce.begin(), peer_nonce.end());
  text.append(own_nonce.begin(), own_nonce.end());
  Mac mac{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size) == nullptr)
    throw std::runtime_error("HMAC-SHA256 is not available");
  return mac;
}

bool equal(const Mac& expected, std::string_view given) {
  return given.size() == expected.size() &&
         CRYPTO_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

}  // namespace lynx
