// What is wrong with a template, or with running it, and in which line.
#pragma once

#include <stdexcept>
#include <string>

namespace lynx::jinja {

class TemplateError : public std::runtime_error {
 public:
  TemplateError(int line, const std::string& what) : std::runtime_error(std::to_string(line) + ": " + what) {}
};

[[noreturn]] inline void fail(int line, const std::string& what) { throw TemplateError(line, what); }

}  // namespace lynx::jinja
