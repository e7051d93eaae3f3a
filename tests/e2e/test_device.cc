// A worker that cannot start where it is says why in one sentence and exits: no GPU, no memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/e2e/cluster.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

struct Ended {
  int status = -1;
  std::string output;
};

Ended run_decode(std::vector<std::string> flags) {
  std::string log = ::testing::TempDir() + "lynx-device-XXXXXX";
  const int file = ::mkstemp(log.data());
  EXPECT_GE(file, 0);
  ::close(file);
  std::vector<std::string> argv{binary_path("bin/lynx-decode"), "--model.path", model_folder(), "--http.port",
                                "0"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  ServiceProcess process(argv, log);
  const auto status = process.wait(kPatience);
  std::ifstream text(log);
  return {status.value_or(-1), std::string(std::istreambuf_iterator<char>(text), {})};
}

TEST(Device, AGpuThatIsNotThereIsNamed) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // also where there is one
  const Ended ended = run_decode({"--backend", "cuda"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(ended.status, 1) << ended.output;
  EXPECT_NE(ended.output.find("device 'cuda': "), std::string::npos) << ended.output;
}

TEST(Device, APathForKvThatIsNotThereIsNamed) {
  const Ended ended = run_decode({"--backend", "cpu", "--kv.path", "device"});
  EXPECT_EQ(ended.status, 1) << ended.output;
  EXPECT_NE(ended.output.find("kv.path: 'device', but this worker computes on the CPU"), std::string::npos)
      << ended.output;
}

TEST(Device, MemoryThatIsNotThereIsFoundAtStart) {
  const Ended ended = run_decode({"--backend", backend(), "--kv.memory_mb", "100000000"});
  EXPECT_EQ(ended.status, 2) << ended.output;
  EXPECT_NE(ended.output.find("lower kv.memory_mb"), std::string::npos) << ended.output;
}

}  // namespace
}  // namespace lynx::testing
