#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tests/common/config/sample_config.h"

namespace lynx {
namespace {

ConfigOutcome run(SampleConfig& config, std::vector<std::string> args) {
  args.insert(args.begin(), "lynx-test");
  std::vector<char*> argv;
  for (auto& arg : args) argv.push_back(arg.data());
  auto fields = config.fields();
  return configure(static_cast<int>(argv.size()), argv.data(), "lynx-test", "A test.", fields);
}

std::string error_of(const std::vector<std::string>& args) {
  SampleConfig config;
  try {
    run(config, args);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

class ConfigureTest : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream(file_) << "model: from-file\nhttp:\n  port: 1\n  routers: [a:1]\n"; }
  void TearDown() override { std::remove(file_.c_str()); }

  const std::string file_ = ::testing::TempDir() + "lynx_configure_" + std::to_string(::getpid()) + ".yaml";
};

TEST_F(ConfigureTest, FlagsOverrideTheFileWhereverTheyStand) {
  SampleConfig config;
  EXPECT_EQ(
      run(config, {"--http.port", "2", "--config", file_, "--http.routers=b:1,b:2", "--http.routers", "b:3",
                   "--slo.classes.weights", "x=1,y=2.5", "--engine.offset", "-5", "--http.timeout=2s"}),
      ConfigOutcome::kRun);
  EXPECT_EQ(config.model, "from-file");
  EXPECT_EQ(config.port, 2);
  EXPECT_EQ(config.routers, (std::vector<std::string>{"b:1", "b:2", "b:3"}));
  EXPECT_EQ(config.weights, (std::map<std::string, double>{{"x", 1}, {"y", 2.5}}));
  EXPECT_EQ(config.offset, -5);
  EXPECT_EQ(config.timeout, std::chrono::seconds(2));
}

TEST_F(ConfigureTest, BooleansStandAloneOrWithAValue) {
  SampleConfig config;
  run(config, {"--greedy", "--http.port", "3"});
  EXPECT_TRUE(config.greedy);
  EXPECT_EQ(config.port, 3);
  run(config, {"--greedy=false"});
  EXPECT_FALSE(config.greedy);
}

TEST_F(ConfigureTest, PrintConfigGivesAFileThatReadsBack) {
  SampleConfig config;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run(config, {"--config", file_, "--engine.batch", "7", "--print-config"}), ConfigOutcome::kExit);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  SampleConfig again;
  auto fields = again.fields();
  read_yaml_text(printed, "printed", fields);
  EXPECT_EQ(again, config);
  EXPECT_EQ(again.batch, 7u);
}

TEST_F(ConfigureTest, HelpAndVersionPrintAndExit) {
  SampleConfig config;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run(config, {"--help"}), ConfigOutcome::kExit);
  const std::string help = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(help.find("--http.port"), std::string::npos) << help;
  EXPECT_NE(help.find("port of the API"), std::string::npos) << help;
  EXPECT_NE(help.find("8000"), std::string::npos) << "the default is shown: " << help;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run(config, {"--version"}), ConfigOutcome::kExit);
  EXPECT_EQ(::testing::internal::GetCapturedStdout().find("lynx-test "), 0u);
}

TEST_F(ConfigureTest, WrongFlagsAreNamed) {
  EXPECT_EQ(error_of({"--http.port", "x"}), "--http.port: expected an integer from 0 to 65535, got 'x'");
  EXPECT_EQ(error_of({"--http.prot", "1"}), "unknown argument '--http.prot', did you mean '--http.port'?");
  EXPECT_EQ(error_of({"--http.prot=1"}), "unknown argument '--http.prot=1', did you mean '--http.port'?");
  EXPECT_EQ(error_of({"stray"}), "unknown argument 'stray'");
  EXPECT_EQ(error_of({"--slo.classes.weights", "x"}),
            "--slo.classes.weights: expected a map from names to numbers, written name=1.5,other=2, got 'x'");
  EXPECT_NE(error_of({"--http.port"}), "no error") << "no value";
  EXPECT_NE(error_of({"--http.port", "1", "--http.port", "2"}), "no error") << "given twice";
  EXPECT_EQ(error_of({"--config", "/nonexistent.yaml"}), "/nonexistent.yaml: No such file or directory");
}

}  // namespace
}  // namespace lynx
