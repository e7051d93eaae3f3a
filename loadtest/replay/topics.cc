#include "loadtest/replay/topics.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/core/json_error.h"
#include "common/core/read_file.h"

namespace lynx {

Topics read_topics(const std::string& path) {
  const std::string text = read_file(path);
  nlohmann::ordered_json json;
  try {
    json = nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    throw std::runtime_error(path + ": " + json_reason(e));
  }
  Topics topics;
  if (!json.is_object() || json.empty()) throw std::runtime_error(path + ": expected topics with prompts");
  for (const auto& [name, prompts] : json.items()) {
    topics.names.push_back(name);
    try {
      topics.prompts.push_back(prompts.get<std::vector<std::string>>());
    } catch (const nlohmann::json::exception&) {
      throw std::runtime_error(path + ": " + name + ": expected a list of texts");
    }
    if (topics.prompts.back().empty()) throw std::runtime_error(path + ": " + name + ": no prompts");
  }
  return topics;
}

}  // namespace lynx
