#include "services/router/cache_scope.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace lynx {

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
