#include "services/engine/json_object.h"

#include <cmath>
#include <stdexcept>

#include "common/core/json_error.h"

namespace lynx {
namespace {
constexpr int kMaxDepth = 32;
}

JsonObject::JsonObject(const std::string& text, std::string name) : name_(std::move(name)) {
  // Copying, printing and freeing a value recurse: a depth that no config has would overflow the stack.
  const auto limit_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMaxDepth) throw std::runtime_error(name_ + ": nested too deeply");
    return true;
  };
  try {
    json_ = nlohmann::json::parse(text, limit_depth);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(name_ + ": " + json_reason(error));
  }
  if (!json_.is_object()) throw std::runtime_error(name_ + ": not a JSON object");
}

JsonObject::JsonObject(nlohmann::json object, std::string name, std::string prefix)
    : json_(std::move(object)), name_(std::move(name)), prefix_(std::move(prefix)) {}

void JsonObject::fail(const std::string& key, const std::string& reason) const {
  throw std::runtime_error(name_ + ": " + prefix_ + key + ": " + reason);
}

const nlohmann::json* JsonObject::find(const std::string& key) const {
  read_.insert(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

std::uint32_t JsonObject::count(const std::string& key, std::uint32_t most) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) fail(key, "missing");
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 || value->get<std::uint64_t>() > most) {
    fail(key, "expected a whole number from 1 to " + std::to_string(most) + ", got " + value->dump());
  }
  return value->get<std::uint32_t>();
}

double JsonObject::number(const std::string& key, double fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    fail(key, "expected a number, got " + value->dump());
  return value->get<double>();
}

bool JsonObject::boolean(const std::string& key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(key, "expected true or false, got " + value->dump());
  return value->get<bool>();
}

std::string JsonObject::text(const std::string& key, const std::string& fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) fail(key, "expected a string, got " + value->dump());
  return value->get<std::string>();
}

JsonObject JsonObject::object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr || !value->is_object()) fail(key, "expected an object");
  return {*value, name_, prefix_ + key + "."};
}

std::vector<std::string> JsonObject::unread() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : json_.items()) {
    if (!read_.contains(key)) out.push_back(key);
  }
  return out;
}

}  // namespace lynx
