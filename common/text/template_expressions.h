// Parses the expressions of a chat template, from the loosest binding to the tightest as Jinja has them.
// Throws TemplateError.
#pragma once

#include "common/text/template_ast.h"
#include "common/text/template_tokens.h"

namespace lynx::jinja {

ExpressionPtr parse_expression(TokenStream& tokens);
ExpressionPtr parse_without_condition(
    TokenStream& tokens);  // leaves a following `if` alone, as `for` needs it

}  // namespace lynx::jinja
