// A JSON object read key by key: typed access whose errors say "file: key: reason", and a list of what nobody
// read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace lynx {

class JsonObject {
 public:
  JsonObject(const std::string& text, std::string name);  // throws on anything but an object
  JsonObject(nlohmann::json object, std::string name, std::string prefix);

  [[noreturn]] void fail(const std::string& key, const std::string& reason) const;

  const nlohmann::json* find(const std::string& key) const;  // null when missing or null
  bool has(const std::string& key) const { return find(key) != nullptr; }
  std::uint32_t count(const std::string& key, std::uint32_t most) const;  // a whole number from 1 to most
  double number(const std::string& key, double fallback) const;
  bool boolean(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  JsonObject object(const std::string& key) const;
  void ignore(const std::string& key) const { read_.insert(key); }

  std::vector<std::string> unread() const;

 private:
  nlohmann::json json_;
  std::string name_;
  std::string prefix_;  // "rope_parameters." inside an object
  mutable std::set<std::string> read_;
};

}  // namespace lynx
