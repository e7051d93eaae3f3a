// A value of a JSON file that knows its path in it, so that every complaint names the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/text/token.h"

namespace lynx {

class JsonPlace {
 public:
  static constexpr std::int64_t kMaxTokenId = 1 << 21;

  JsonPlace(const nlohmann::json& value, std::string path, const std::string& file)
      : value_(&value), path_(std::move(path)), file_(&file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(*file_ + ": " + path_ + ": " + what);
  }

  const nlohmann::json& value() const { return *value_; }
  bool has(const std::string& key) const {
    return value_->is_object() && value_->contains(key) && !(*value_)[key].is_null();
  }
  JsonPlace at(const std::string& key) const {
    if (!value_->is_object()) fail("expected an object");
    if (!value_->contains(key)) JsonPlace(*value_, child(key), *file_).fail("is missing");
    return {(*value_)[key], child(key), *file_};
  }
  JsonPlace at(std::size_t i) const { return {(*value_)[i], path_ + "[" + std::to_string(i) + "]", *file_}; }
  std::size_t size() const {
    if (!value_->is_array()) fail("expected a list");
    return value_->size();
  }
  std::string text() const {
    if (!value_->is_string()) fail("expected a string");
    return value_->get<std::string>();
  }
  TokenId token() const {
    if (!value_->is_number_integer() || *value_ < 0 || *value_ >= kMaxTokenId)
      fail("expected a token id from 0 to " + std::to_string(kMaxTokenId - 1));
    return value_->get<TokenId>();
  }
  bool flag(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    const JsonPlace place = at(key);
    if (!place.value().is_boolean()) place.fail("expected true or false");
    return place.value().get<bool>();
  }
  // The field must be absent, null, false or empty: anything else asks for what is not supported.
  void must_be_off(const std::string& key) const {
    if (!has(key)) return;
    const nlohmann::json& value = (*value_)[key];
    const bool off = value == false || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
                     (value.is_number() && value == 0);
    if (!off) at(key).fail("is not supported");
  }

 private:
  std::string child(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const nlohmann::json* value_;
  std::string path_;
  const std::string* file_;
};

}  // namespace lynx
