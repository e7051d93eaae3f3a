#include "services/router/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <fstream>
#include <stdexcept>

namespace lynx {
namespace {

constexpr std::string_view kScheme = "Bearer ";

std::array<unsigned char, 32> digest(std::string_view text) {
  std::array<unsigned char, 32> out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

}  // namespace

ApiKeys ApiKeys::from_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  ApiKeys out;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && line[0] != '#') out.keys_.push_back(digest(line));
  }
  if (out.keys_.empty()) throw std::runtime_error(path + ": holds no key");
  return out;
}

bool ApiKeys::allows(std::string_view header) const {
  if (keys_.empty()) return true;
  if (!header.starts_with(kScheme)) return false;
  const Digest asked = digest(header.substr(kScheme.size()));
  int matches = 0;
  for (const Digest& key : keys_) matches |= CRYPTO_memcmp(key.data(), asked.data(), key.size()) == 0 ? 1 : 0;
  return matches != 0;
}

}  // namespace lynx
