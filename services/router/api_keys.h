// The keys a client may present. Only digests are kept, and a look-up touches all of them in constant time,
// so that the time of an answer tells nothing about a key. Immutable after load.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lynx {

class ApiKeys {
 public:
  ApiKeys() = default;  // no keys: everyone may
  // One key a line, blanks around it left out; empty lines and lines that start with # are skipped. Throws
  // std::runtime_error naming the file when it cannot be read or holds no key.
  static ApiKeys from_file(const std::string& path);

  // header: the value of Authorization.
  bool allows(std::string_view header) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  std::vector<Digest> keys_;
};

}  // namespace lynx
