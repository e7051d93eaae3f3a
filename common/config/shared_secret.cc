#include "common/config/shared_secret.h"

#include <cstdlib>
#include <stdexcept>

#include "common/config/field_checks.h"
#include "common/core/read_file.h"

namespace lynx {

std::string read_shared_secret(const std::string& file) {
  std::string secret;
  if (file.empty()) {
    if (const char* variable = std::getenv(kSecretVariable)) secret = variable;
    return secret;
  }
  try {
    secret = read_file(file);
  } catch (const std::runtime_error& e) {
    throw ConfigError(std::string("control.secret_file: ") + e.what());
  }
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  check_field(!secret.empty(), "control.secret_file", "'" + file + "' is empty");
  return secret;
}

}  // namespace lynx
