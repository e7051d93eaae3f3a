// Text inside HTML and SVG.
#pragma once

#include <string>

namespace lynx {

// For element content and for attributes in double quotes; control characters become blanks.
std::string escape_html(const std::string& text);
std::string number(double value, int digits = 1);  // with so many digits after the point

}  // namespace lynx
