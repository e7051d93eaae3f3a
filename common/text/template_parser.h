// Parses a chat template. Throws TemplateError with the line for everything outside the supported subset.
#pragma once

#include <string>

#include "common/text/template_ast.h"

namespace lynx::jinja {

Body parse_template(const std::string& source);

}  // namespace lynx::jinja
