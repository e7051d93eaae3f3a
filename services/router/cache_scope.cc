#include "services/router/cache_scope.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace lynx {

namespace {

// An unkeyed digest could be tried against guesses of a key by everyone who reads a worker's traffic.
std::string drawn_secret() {
  std::string secret(32, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()), static_cast<int>(secret.size())) != 1)
    throw std::runtime_error("no randomness for a secret of the prefix cache's scopes");
  return secret;
}

}  // namespace

CacheScope::CacheScope(std::string secret, bool by_key)
    : secret_(secret.empty() ? drawn_secret() : std::move(secret)), by_key_(by_key) {}

std::uint64_t CacheScope::of(std::string_view authorization, std::string_view cache_salt) const {
  const std::string_view key = by_key_ ? authorization : std::string_view();
  if (key.empty() && cache_salt.empty()) return 0;
  // The length keeps a key and a salt apart that would read the same in a row.
  std::string text = "lynx prefix cache " + std::to_string(key.size()) + ' ';
  text.append(key).append(cache_salt);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size) == nullptr)
    throw std::runtime_error("HMAC-SHA256 is not available");
  std::uint64_t scope = 0;
  std::memcpy(&scope, digest.data(), sizeof scope);
  return std::max<std::uint64_t>(scope, 1);
}

}  // namespace lynx
