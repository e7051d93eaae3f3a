#include "common/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace lynx {
namespace {

std::vector<std::size_t> borders_of(std::string_view text) {
  std::vector<std::size_t> border(text.size(), 0);
  for (std::size_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    if (text[i] == text[length]) ++length;
    border[i] = length;
  }
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops, bool keep) : keep_(keep) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    auto border = borders_of(stop);
    stops_.push_back({std::move(stop), std::move(border), 0});
  }
}

bool StopMatcher::Stop::advance(char byte) {
  while (matched > 0 && text[matched] != byte) matched = border[matched - 1];
  if (text[matched] == byte) ++matched;
  return matched == text.size();
}

StopMatcher::Out StopMatcher::push(std::string_view piece) {
  if (stopped_) return {{}, true};
  for (const char byte : piece) {
    held_ += byte;
    std::size_t cut = 0;
    for (Stop& stop : stops_)
      if (stop.advance(byte)) cut = std::max(cut, stop.text.size());
    if (cut == 0) continue;
    stopped_ = true;
    if (!keep_) held_.resize(held_.size() - cut);
    return {std::exchange(held_, {}), true};
  }
  std::size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max(keep, stop.matched);
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return {std::move(text), false};
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace lynx
