#include "common/core/read_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace lynx {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw std::runtime_error(path + ": cannot be read: " + std::strerror(errno));
}

}  // namespace

// Not by std::ifstream, which keeps no reason and opens folders, too.
std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file == nullptr) fail(path);
  std::string out;
  char part[16 * 1024];
  while (const std::size_t got = std::fread(part, 1, sizeof part, file.get())) out.append(part, got);
  if (std::ferror(file.get()) != 0) fail(path);
  return out;
}

}  // namespace lynx
