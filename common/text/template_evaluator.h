// Runs a parsed chat template. Work, memory and output are bounded, so no template can hang or exhaust a
// server.
#pragma once

#include <string>

#include "common/text/template_ast.h"

namespace lynx::jinja {

// What a template's own raise_exception says.
struct Raised {
  std::string message;
};

// globals: an object of the names the template may use. Throws TemplateError or Raised.
std::string evaluate(const Body& body, const Value& globals);

}  // namespace lynx::jinja
