// Stop strings over a stream of text pieces. Text that might be the start of a stop string is held back; the
// stop string itself comes out only where it is asked for. The stop string that is complete first wins, the
// longest of those that end together: so the outcome depends on the text alone, not on its pieces. Never cuts
// inside a UTF-8 character (stop strings are whole characters). Each byte costs one step for each stop
// string, however long the stream or the stop strings. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lynx {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops, bool keep = false);  // empty ones never match

  struct Out {
    std::string text;      // safe to send
    bool stopped = false;  // a stop string was found; ignore what follows
  };
  Out push(std::string_view piece);
  std::string finish();  // the stream ended without a stop: what was held back

 private:
  struct Stop {  // matched by Knuth, Morris and Pratt
    std::string text;
    std::vector<std::size_t> border;  // [i]: longest proper start of text that also ends text[0..i]
    std::size_t matched = 0;

    bool advance(char byte);  // whether text is complete now
  };

  std::vector<Stop> stops_;
  std::string held_;
  const bool keep_;
  bool stopped_ = false;
};

}  // namespace lynx
