// Texts by topic, for requests of which some are alike.
#pragma once

#include <string>
#include <vector>

namespace lynx {

struct Topics {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> prompts;  // of each topic, at least one
};

// {"topic": ["prompt", ...], ...}. Throws std::runtime_error naming the file and the field.
Topics read_topics(const std::string& path);

}  // namespace lynx
