#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "common/config/shared_secret.h"
#include "common/config/yaml_reader.h"

namespace lynx {
namespace {

std::string error_of(const std::string& file) {
  try {
    static_cast<void>(read_shared_secret(file));
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(SharedSecret, ComesFromTheFileWithoutItsLineEnd) {
  const std::string path = ::testing::TempDir() + "lynx-secret";
  std::ofstream(path) << "hush\r\n";
  EXPECT_EQ(read_shared_secret(path), "hush");
  std::ofstream(path, std::ios::trunc) << "\n";
  EXPECT_EQ(error_of(path), "control.secret_file: '" + path + "' is empty");
  std::remove(path.c_str());
  EXPECT_EQ(error_of(path), "control.secret_file: " + path + ": cannot be read: No such file or directory");
}

TEST(SharedSecret, WithoutAFileIsThatOfTheEnvironment) {
  unsetenv(kSecretVariable);
  EXPECT_EQ(read_shared_secret(""), "");
  setenv(kSecretVariable, "hush", 1);
  EXPECT_EQ(read_shared_secret(""), "hush");
  unsetenv(kSecretVariable);
}

}  // namespace
}  // namespace lynx
