// The router's own page: HTML, style and script in one document without external assets. It polls
// /debug/overview (see overview.h).
#pragma once

#include <string>
#include <string_view>

#include "common/net/http_server.h"

namespace lynx {

std::string_view live_page();

// The page as a response that lets a browser run nothing but itself.
HttpResponse live_page_response();

// Whether the page is served: `on`, `off`, or `auto`: only where the API listens on loopback alone, since
// the page names workers and asks for no key.
bool serves_live_page(const std::string& setting, const std::string& http_host);

}  // namespace lynx
