#include "services/router/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <sstream>
#include <stdexcept>

#include "common/core/read_file.h"

namespace lynx {
namespace {

constexpr std::string_view kScheme = "Bearer ";
constexpr std::string_view kBlanks = " \t\r";

std::array<unsigned char, 32> digest(std::string_view text) {
  std::array<unsigned char, 32> out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

}  // namespace

ApiKeys ApiKeys::from_file(const std::string& path) {
  std::istringstream file(read_file(path));
  ApiKeys out;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line.erase(line.find_last_not_of(kBlanks) + 1);
    line.erase(0, line.find_first_not_of(kBlanks));
    if (line.empty() || line[0] == '#') continue;
    if (line.find_first_of(kBlanks) != std::string::npos)  // a header could not carry it
      throw std::runtime_error(path + ":" + std::to_string(number) + ": a key holds no blanks");
    out.keys_.push_back(digest(line));
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
