#include "common/text/stop_matcher.h"

#include <algorithm>

namespace lynx {
namespace {

// Length of the longest end of text that is a proper start of stop.
std::size_t pending(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length)
    if (stop.starts_with(text.substr(text.size() - length))) return length;
  return 0;
}

}  // namespace

// What is held back is at all times shorter than the longest stop string, so the work per piece is bounded by
// the piece and the stop strings, whatever the length of the stream.
StopMatcher::Out StopMatcher::push(std::string_view piece) {
  if (stopped_) return {{}, true};
  held_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_)
    if (!stop.empty()) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string text = held_.substr(0, first);
    held_.clear();
    return {std::move(text), true};
  }
  std::size_t keep = 0;
  for (const std::string& stop : stops_)
    if (!stop.empty()) keep = std::max(keep, pending(held_, stop));
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return {std::move(text), false};
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace lynx
