// The secret that the processes of a cluster share.
#pragma once

#include <string>

namespace lynx {

inline constexpr const char* kSecretVariable = "LYNX_CLUSTER_SECRET";

// What the file holds, less its line end; without a file, what the environment's variable does; empty: there
// is none. Throws ConfigError naming control.secret_file when it cannot be read or is empty.
std::string read_shared_secret(const std::string& file);

}  // namespace lynx
