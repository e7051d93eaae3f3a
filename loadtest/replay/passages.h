// The text that prompts are made of when no file is named: plain English about a few dozen subjects, written
// for this tool.
#pragma once

#include <string_view>

namespace lynx {

std::string_view default_passages();

}  // namespace lynx
