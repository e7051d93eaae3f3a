// Stop strings over a stream of text pieces. Text that might be the start of a stop string is held back; the
// stop string itself never comes out. Never cuts inside a UTF-8 character (stop strings are whole
// characters). One thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lynx {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Out {
    std::string text;      // safe to send
    bool stopped = false;  // a stop string was found; ignore what follows
  };
  Out push(std::string_view piece);
  std::string finish();  // the stream ended without a stop: what was held back

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace lynx
