#include "common/text/template_names.h"

#include <span>

namespace lynx::jinja {
namespace {

constexpr Callable kFilters[] = {
    {"trim", 0, 1},
    {"length", 0, 0},
    {"count", 0, 0},
    {"upper", 0, 0},
    {"lower", 0, 0},
    {"capitalize", 0, 0},
    {"replace", 2, 3},
    {"join", 0, 1},
    {"first", 0, 0},
    {"last", 0, 0},
    {"list", 0, 0},
    {"items", 0, 0},
    {"string", 0, 0},
    {"safe", 0, 0},
    {"default", 0, 2, "boolean", 2},
    {"selectattr", 1, 3},
    {"rejectattr", 1, 3},
    {"d", 0, 2, "boolean", 2},
    {"reverse", 0, 0},
    {"tojson", 0, 0, "indent", 1},
    {"map", 0, 0, "attribute", 1},
};
constexpr Callable kTests[] = {
    {"defined", 0, 0},  {"undefined", 0, 0}, {"none", 0, 0},   {"string", 0, 0},  {"mapping", 0, 0},
    {"iterable", 0, 0}, {"sequence", 0, 0},  {"number", 0, 0}, {"integer", 0, 0}, {"float", 0, 0},
    {"boolean", 0, 0},  {"true", 0, 0},      {"false", 0, 0},  {"odd", 0, 0},     {"even", 0, 0},
    {"equalto", 1, 1},  {"eq", 1, 1},        {"ne", 1, 1},     {"in", 1, 1},      {"divisibleby", 1, 1},
};
constexpr Callable kMethods[] = {
    {"strip", 0, 1},      {"lstrip", 0, 1},   {"rstrip", 0, 1}, {"split", 0, 2, "maxsplit", 2},
    {"startswith", 1, 1}, {"endswith", 1, 1}, {"upper", 0, 0},  {"lower", 0, 0},
    {"capitalize", 0, 0}, {"replace", 2, 3},  {"join", 1, 1},   {"items", 0, 0},
    {"keys", 0, 0},       {"values", 0, 0},   {"get", 1, 2},
};
constexpr Callable kFunctions[] = {{"raise_exception", 0, 1}, {"range", 1, 3}, {"namespace", 0, 0}};

const Callable* find(std::span<const Callable> among, std::string_view name) {
  for (const Callable& callable : among)
    if (callable.name == name) return &callable;
  return nullptr;
}

}  // namespace

const Callable* find_filter(std::string_view name) { return find(kFilters, name); }
const Callable* find_test(std::string_view name) { return find(kTests, name); }
const Callable* find_method(std::string_view name) { return find(kMethods, name); }
const Callable* find_function(std::string_view name) { return find(kFunctions, name); }

}  // namespace lynx::jinja
