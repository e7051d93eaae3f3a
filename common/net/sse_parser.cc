#include "common/net/http_client.h"

namespace lynx {
namespace {

void take_line(std::string_view line, const std::function<void(std::string_view)>& on_data) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with("data:")) return;
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  on_data(line);
}

}  // namespace

void SseParser::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  std::size_t end = bytes.find('\n');
  if (end != std::string_view::npos && !partial_.empty()) {
    partial_ += bytes.substr(0, end);
    const std::string line = std::exchange(partial_, {});  // on_data may feed again
    take_line(line, on_data);
    bytes.remove_prefix(end + 1);
    end = bytes.find('\n');
  }
  for (; end != std::string_view::npos; end = bytes.find('\n')) {
    take_line(bytes.substr(0, end), on_data);
    bytes.remove_prefix(end + 1);
  }
  partial_ += bytes;
}

}  // namespace lynx
