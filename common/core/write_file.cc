#include "common/core/write_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace lynx {

// Not by std::ofstream, which keeps no reason.
void write_file(const std::string& path, std::string_view text) {
  std::FILE* const file = std::fopen(path.c_str(), "wbe");
  bool whole = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int reason = errno;
  if (file != nullptr && std::fclose(file) != 0 && whole) {  // the last part leaves its buffer here
    whole = false;
    reason = errno;
  }
  if (!whole) throw std::runtime_error(path + ": cannot be written: " + std::strerror(reason));
}

}  // namespace lynx
