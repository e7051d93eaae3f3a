#include "common/transport/ucx_info.h"

#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>

namespace lynx {

namespace {

bool starts_with_any(const std::string& name, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return true;
  return false;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::string captured(const std::function<void(std::FILE*)>& print) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr) return {};
  print(stream);
  std::fclose(stream);
  std::string out(text, size);
  std::free(text);  // NOLINT(cppcoreguidelines-no-malloc): open_memstream gives malloc memory
  return out;
}

std::vector<std::string> ucx_resources(const std::string& context_info) {
  // "#      resource 0  :  md 0  dev 0  flags -- posix/memory"
  std::vector<std::string> out;
  std::istringstream in(context_info);
  for (std::string line; std::getline(in, line);) {
    const auto words = words_of(line);
    if (words.size() > 2 && words[1] == "resource") out.push_back(words.back());
  }
  return out;
}

std::vector<std::string> ucx_network_devices(const std::vector<std::string>& resources) {
  std::set<std::string> names;
  for (const std::string& resource : resources) {
    const auto slash = resource.find('/');
    const bool memory = ucx_kind(resource.substr(0, slash)) == "shm" ||
                        starts_with_any(resource, {"self", "cuda", "gdr", "rocm", "ze_"});
    if (slash != std::string::npos && !memory) names.insert(resource.substr(slash + 1));
  }
  return {names.begin(), names.end()};
}

std::string ucx_chosen_transport(const std::string& endpoint_info) {
  // "#   lane[0]:  0:posix/memory.0 md[0]   -> md[0]/posix/sysdev[255] am am_bw#0 keepalive"
  std::set<std::string> kinds;
  std::istringstream in(endpoint_info);
  for (std::string line; std::getline(in, line);) {
    const auto words = words_of(line);
    if (words.size() < 3 || !words[1].starts_with("lane[")) continue;
    const auto colon = words[2].find(':');
    const auto slash = words[2].find('/');
    if (colon == std::string::npos || slash == std::string::npos || slash < colon) continue;
    kinds.insert(ucx_kind(words[2].substr(colon + 1, slash - colon - 1)));
  }
  std::string out;
  for (const std::string& kind : kinds) out += (out.empty() ? "" : "+") + kind;
  return out;
}

std::string ucx_kind(const std::string& transport) {
  if (starts_with_any(transport, {"posix", "sysv", "cma", "xpmem", "knem"})) return "shm";
  if (starts_with_any(transport, {"rc", "ud", "dc", "ib"})) return "rdma";
  return transport;
}

}  // namespace lynx
