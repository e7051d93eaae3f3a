// Text that is put together line by line, for what a terminal or a Markdown file shows.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

namespace lynx {

class TextPage {
 public:
  // A line longer than the buffer is cut: names from outside may be of any length.
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) {
    std::va_list args;
    va_start(args, format);
    char buffer[512];
    std::vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    text_ += buffer;
    text_ += '\n';
  }
  void heading(const char* name) { text_ += "\n" + std::string(name) + "\n"; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace lynx
