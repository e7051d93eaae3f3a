#include "common/core/read_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "common/core/json_error.h"
#include "common/core/worker_name.h"
#include "common/core/write_file.h"

namespace lynx {
namespace {

std::string error_of(const std::string& path) {
  try {
    read_file(path);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(ReadFile, IsWholeOrSaysWhyNot) {
  const std::string path = ::testing::TempDir() + "lynx_read_file_test";
  const std::string text = std::string(100'000, 'x') + '\0' + "end";
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(read_file(path), text);
  std::remove(path.c_str());
  EXPECT_EQ(error_of(path), path + ": cannot be read: No such file or directory");
  EXPECT_EQ(error_of(::testing::TempDir()), ::testing::TempDir() + ": cannot be read: Is a directory");
}

TEST(WriteFile, IsWholeOrSaysWhyNot) {
  const std::string path = ::testing::TempDir() + "lynx_write_file_test";
  for (const std::string& text :
       {std::string(100'000, 'x') + '\0' + "end", std::string("short"), std::string()}) {
    write_file(path, text);
    EXPECT_EQ(read_file(path), text);
  }
  std::remove(path.c_str());
  const auto error = [](const std::string& where, std::size_t size) -> std::string {
    try {
      write_file(where, std::string(size, 'x'));
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  };
  for (const std::size_t size : {1U, 100'000U})  // the short one is noticed at the end alone
    EXPECT_EQ(error("/dev/full", size), "/dev/full: cannot be written: No space left on device");
  EXPECT_EQ(error("/nowhere/file", 1), "/nowhere/file: cannot be written: No such file or directory");
}

TEST(JsonReason, HasNoNameOfALibrary) {
  EXPECT_EQ(json_reason(std::runtime_error("[json.exception.parse_error.101] parse error at line 1")),
            "parse error at line 1");
  EXPECT_EQ(json_reason(std::runtime_error("a list ] of things")), "a list ] of things");
}

TEST(WorkerName, IsShortAndPlain) {
  for (const char* good : {"decode-0", "host.domain-12_3", "A"}) EXPECT_TRUE(is_worker_name(good)) << good;
  for (const char* bad : {"", "a b", "a\nb", "n\xC3\xA4me", "a/b", "a\"b"})
    EXPECT_FALSE(is_worker_name(bad)) << bad;
  EXPECT_TRUE(is_worker_name(std::string(128, 'a')));
  EXPECT_FALSE(is_worker_name(std::string(129, 'a')));
}

}  // namespace
}  // namespace lynx
