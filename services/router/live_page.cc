#include "services/router/live_page.h"

#include "services/router/router_config.h"

namespace lynx {

HttpResponse live_page_response() {
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.body = live_page();
  response.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
       "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Cache-Control", "no-store"}};
  return response;
}

bool serves_live_page(const std::string& setting, const std::string& http_host) {
  return setting == "on" || (setting == "auto" && is_loopback(http_host));
}

}  // namespace lynx
