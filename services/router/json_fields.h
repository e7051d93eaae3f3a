// Reads the members of one JSON object into typed variables, remembers the first thing that is wrong with the
// name of its field, and at the end finds the members that nobody asked for. A member that is null counts as
// absent.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/text/token.h"
#include "services/router/api_error.h"

namespace lynx {

class JsonFields {
 public:
  // object must be a JSON object and outlive this. prefix: what stands before a member's name in errors
  // ("lynx.").
  JsonFields(const nlohmann::json& object, std::string prefix = "");

  const nlohmann::json* take(const std::string& name);  // nullptr when absent
  bool boolean(const std::string& name, bool& out);     // each: true when the member was there and fits
  bool text(const std::string& name, std::string& out);
  bool real(const std::string& name, double low, double high, float& out);
  template <typename Integer>
  bool integer(const std::string& name, std::int64_t low, std::int64_t high, Integer& out) {
    std::int64_t value = 0;
    if (!integer64(name, low, high, value)) return false;
    out = static_cast<Integer>(value);
    return true;
  }
  void ignore(const std::string& name) { take(name); }
  // Part of the wider API, accepted only with the value that asks for nothing.
  void only(const std::string& name, const nlohmann::json& neutral);

  void fail(const std::string& name, std::string message);  // the first failure stays
  void adopt(const ApiError& error) {                       // of an inner object
    if (!error_) error_ = error;
  }
  bool failed() const { return error_.has_value(); }
  std::optional<ApiError> finish();  // reports unknown members too

 private:
  bool integer64(const std::string& name, std::int64_t low, std::int64_t high, std::int64_t& out);

  const nlohmann::json& object_;
  std::string prefix_;
  std::set<std::string> known_;
  std::optional<ApiError> error_;
};

// A list of token ids, all below vocab; nothing when the value is anything else.
std::optional<std::vector<TokenId>> token_ids(const nlohmann::json& value, std::size_t vocab);

}  // namespace lynx
