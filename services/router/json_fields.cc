#include "services/router/json_fields.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace lynx {
namespace {

template <typename Number>
std::string range(Number low, Number high) {
  std::ostringstream out;
  out << "from " << low << " to " << high;
  return out.str();
}

}  // namespace

JsonFields::JsonFields(const nlohmann::json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const nlohmann::json* JsonFields::take(const std::string& name) {
  known_.insert(name);
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

bool JsonFields::boolean(const std::string& name, bool& out) {
  const auto* value = take(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) return fail(name, "must be true or false"), false;
  out = value->get<bool>();
  return true;
}

bool JsonFields::text(const std::string& name, std::string& out) {
  const auto* value = take(name);
  if (value == nullptr) return false;
  if (!value->is_string()) return fail(name, "must be a string"), false;
  out = value->get<std::string>();
  return true;
}

bool JsonFields::real(const std::string& name, double low, double high, float& out) {
  const auto* value = take(name);
  if (value == nullptr) return false;
  const bool fits = value->is_number() && value->get<double>() >= low && value->get<double>() <= high;
  if (!fits) return fail(name, "must be a number " + range(low, high)), false;
  out = value->get<float>();
  return true;
}

bool JsonFields::integer64(const std::string& name, std::int64_t low, std::int64_t high, std::int64_t& out) {
  const auto* value = take(name);
  if (value == nullptr) return false;
  const bool too_large =
      value->is_number_unsigned() &&
      value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const bool fits = value->is_number_integer() && !too_large && value->get<std::int64_t>() >= low &&
                    value->get<std::int64_t>() <= high;
  if (!fits) return fail(name, "must be a whole number " + range(low, high)), false;
  out = value->get<std::int64_t>();
  return true;
}

void JsonFields::only(const std::string& name, const nlohmann::json& neutral) {
  const auto* value = take(name);
  if (value != nullptr && *value != neutral) fail(name, "is not supported, apart from " + neutral.dump());
}

void JsonFields::fail(const std::string& name, std::string message) {
  if (!error_) error_ = bad_field(prefix_ + name, "'" + prefix_ + name + "' " + std::move(message));
}

std::optional<ApiError> JsonFields::finish() {
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name)) {
      fail(name, "is not a known field");
      break;
    }
  return error_;
}

std::optional<std::vector<TokenId>> token_ids(const nlohmann::json& value, std::size_t vocab) {
  if (!value.is_array()) return std::nullopt;
  for (const auto& item : value)
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() >= vocab) return std::nullopt;
  return value.get<std::vector<TokenId>>();
}

}  // namespace lynx
