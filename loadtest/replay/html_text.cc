#include "loadtest/replay/html_text.h"

#include <cstdio>

namespace lynx {

std::string escape_html(const std::string& words) {
  std::string out;
  for (const char c : words) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += ' ';
    else
      out += c;
  }
  return out;
}

std::string number(double value, int digits) {
  char out[48];
  std::snprintf(out, sizeof out, "%.*f", digits, value);
  return out;
}

}  // namespace lynx
