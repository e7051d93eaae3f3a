#pragma once
#include <cstdint>
namespace lynx {
using TokenId = std::uint32_t;
}
