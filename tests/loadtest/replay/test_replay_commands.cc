// What the program does, short of its command line: replays against one server and two, files, comparison,
// statuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "loadtest/replay/commands.h"
#include "tests/loadtest/replay/fake_api.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

namespace fs = std::filesystem;
using testing::FakeApi;

class ReplayCommands : public ::testing::Test {
 protected:
  ReplayCommands() {
    folder_ = fs::temp_directory_path() / ("lynx-replay-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    config_.tokenizer = source_path("deploy/model/tokenizer.json");
    config_.synthetic.duration_s = 0.6;
    config_.synthetic.rate = 60;
    config_.synthetic.burst = 1;
    config_.synthetic.gap_cv = 1;
    config_.synthetic.input.median = 20;
    config_.synthetic.output.median = 5;
    config_.progress = std::chrono::milliseconds(0);
    config_.live = "off";
    config_.save_requests = true;
    config_.result = path("out.json");
  }
  ~ReplayCommands() override { fs::remove_all(folder_); }

  // With one server that is there and one that is not: waits for the first no longer than a quick machine
  // needs, and on another a longer time.
  int replay_with_one(const FakeApi& there) {
    config_.ready_timeout = std::chrono::milliseconds(200);
    while (true) {
      ::testing::internal::CaptureStdout();
      const int status = replay_command(config_);
      ::testing::internal::GetCapturedStdout();
      if (there.served() > 0 || config_.ready_timeout > kPatience) return status;
      config_.ready_timeout *= 4;
    }
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    EXPECT_TRUE(in) << name;
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
  ReplayConfig config_;
};

TEST_F(ReplayCommands, OneServerLeavesEveryFile) {
  FakeApi server(/*refuse_every=*/5);
  config_.target = server.address();
  config_.html = path("report.html");
  config_.markdown = path("report.md");
  config_.warm_up = std::chrono::milliseconds(100);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(replay_command(config_), kSomeSucceeded);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("x http_429: full"), std::string::npos) << text;
  const auto result = nlohmann::json::parse(read("out.json"));
  EXPECT_EQ(result["requests"].size(), static_cast<std::size_t>(server.served()));
  EXPECT_GT(result["warm_up"]["requests"], 0);
  EXPECT_GT(result["errors"]["http_429"], 0);
  EXPECT_NE(read("report.html").find("http_429"), std::string::npos);
  EXPECT_NE(read("report.md").find("http_429"), std::string::npos);
}

TEST_F(ReplayCommands, TwoServersGetTheSameRequestsAndAreCompared) {
  for (const char* order : {"one-after-other", "together"}) {
    FakeApi a, b;
    config_.target = a.address();
    config_.against = b.address();
    config_.order = order;
    config_.names = {"left", "right"};
    config_.html = path("ab.html");
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(replay_command(config_), kSomeSucceeded);
    const std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_NE(text.find("left (A) against right (B)"), std::string::npos) << text;
    EXPECT_GT(a.served(), 10);
    EXPECT_EQ(a.served(), b.served()) << order;
    EXPECT_NE(read("ab.html").find("right: p99"), std::string::npos);
  }
  CompareConfig compare;
  compare.a = path("out.left.json");
  compare.b = path("out.right.json");
  compare.names = {"left", "right"};
  compare.markdown = path("ab.md");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(compare_command(compare), kSomeSucceeded);
  EXPECT_NE(::testing::internal::GetCapturedStdout().find("the same on both sides"), std::string::npos);
  EXPECT_NE(read("ab.md").find("| TTFT p99 |"), std::string::npos);
}

TEST_F(ReplayCommands, TopicsMakeThePrompts) {
  FakeApi server;
  config_.target = server.address();
  config_.synthetic.input.median = 40;
  config_.synthetic.input.sigma = 0;
  config_.topics = source_path("loadtest/quality/data/topics.json");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(replay_command(config_), kSomeSucceeded);
  ::testing::internal::GetCapturedStdout();
  std::set<std::string> beginnings;
  for (const std::string& prompt : server.prompts()) beginnings.insert(prompt.substr(0, 20));
  EXPECT_GT(server.served(), 20);
  EXPECT_GT(beginnings.size(), 4u);
  EXPECT_LE(beginnings.size(), 8u) << "each topic has one beginning";
}

TEST_F(ReplayCommands, AServerThatIsNotThereIsAStatusAndNoFile) {
  config_.target = "127.0.0.1:1";
  config_.ready_timeout = std::chrono::milliseconds(200);
  EXPECT_EQ(replay_command(config_), kNoneSucceeded);
  EXPECT_FALSE(fs::exists(folder_ / "out.json"));
}

TEST_F(ReplayCommands, ASecondServerThatIsNotThereCostsNotTheFirstRun) {
  FakeApi first;
  config_.target = first.address();
  config_.against = "127.0.0.1:1";
  EXPECT_EQ(replay_with_one(first), kNoneSucceeded) << "there is no comparison";
  EXPECT_GT(first.served(), 10);
  EXPECT_EQ(nlohmann::json::parse(read("out.A.json"))["requests"].size(),
            static_cast<std::size_t>(first.served()));
}

TEST_F(ReplayCommands, OfTwoTogetherTheOneThatIsThereIsKept) {
  for (const bool first_is_there : {true, false}) {
    FakeApi there;
    config_.target = first_is_there ? there.address() : "127.0.0.1:1";
    config_.against = first_is_there ? "127.0.0.1:1" : there.address();
    config_.order = "together";
    config_.html = path("one.html");
    EXPECT_EQ(replay_with_one(there), kNoneSucceeded) << "there is no comparison";
    EXPECT_GT(there.served(), 10);
    const std::string kept = first_is_there ? "out.A.json" : "out.B.json";
    EXPECT_EQ(nlohmann::json::parse(read(kept))["requests"].size(), static_cast<std::size_t>(there.served()));
    EXPECT_FALSE(fs::exists(folder_ / (first_is_there ? "out.B.json" : "out.A.json")));
    EXPECT_NE(read("one.html").find(there.address()), std::string::npos);
    fs::remove(folder_ / kept);
  }
}

// The quick one would have sent most of its requests before the slow one is ready.
TEST_F(ReplayCommands, OfTwoTogetherNoneSendsBeforeBothAreReady) {
  FakeApi quick;
  std::atomic<int> asked{0}, sent_before{0};
  FakeApi slow(/*refuse_every=*/0, [&] {
    sent_before = quick.served();
    return ++asked > 3;
  });
  for (const bool quick_first : {true, false}) {
    asked = 0;
    config_.target = quick_first ? quick.address() : slow.address();
    config_.against = quick_first ? slow.address() : quick.address();
    config_.order = "together";
    const int served = quick.served();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(replay_command(config_), kSomeSucceeded);
    ::testing::internal::GetCapturedStdout();
    EXPECT_GE(asked, 4);
    EXPECT_EQ(sent_before, served);
    EXPECT_GT(quick.served(), served + 10);
    EXPECT_EQ(quick.served(), slow.served());
  }
}

TEST_F(ReplayCommands, ACheckSendsNothingAndSaysWhatItWould) {
  FakeApi server;
  config_.target = server.address();
  config_.check = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(replay_command(config_), kSomeSucceeded);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(text.starts_with("replay of synthetic: ")) << text;
  EXPECT_NE(text.find(" requests over "), std::string::npos) << text;
  EXPECT_EQ(server.served(), 0);
  EXPECT_FALSE(fs::exists(folder_ / "out.json"));
}

TEST_F(ReplayCommands, WrongSettingsAreNamed) {
  config_.check = true;  // finds them all
  const auto message = [&](const std::function<void(ReplayConfig&)>& change) -> std::string {
    ReplayConfig config = config_;
    change(config);
    try {
      replay_command(config);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message([](auto& c) { c.target = "nowhere"; }).find("--target"), std::string::npos);
  EXPECT_NE(message([](auto& c) { c.against = "a:b"; }).find("--against"), std::string::npos);
  EXPECT_NE(message([](auto& c) { c.names = {"A", "A"}; }).find("--names"), std::string::npos);
  EXPECT_NE(message([](auto& c) { c.order = "random"; }).find("--order"), std::string::npos);
  EXPECT_NE(message([](auto& c) { c.live = "maybe"; }).find("--live"), std::string::npos);
  EXPECT_NE(message([](auto& c) { c.warm_up = std::chrono::hours(1); }).find("--warm-up"), std::string::npos);
  EXPECT_NE(message([](auto& c) { c.trace = "/nowhere.csv"; }).find("/nowhere.csv"), std::string::npos);
  EXPECT_NE(message([&](auto& c) { c.trace = folder_.string(); }).find("no chunk-<client>-trace.csv"),
            std::string::npos);
  EXPECT_NE(message([](auto& c) { c.context = 1; }).find("--context"), std::string::npos);
  EXPECT_NE(message([&](auto& c) { c.result = path("no/folder/out.json"); }).find("--result"),
            std::string::npos);
  EXPECT_NE(message([&](auto& c) { c.html = folder_.string(); }).find("--html"), std::string::npos);
  fs::create_directory(folder_ / "out.B.json");
  const auto second = message([](auto& c) { c.against = "127.0.0.1:1"; });
  EXPECT_NE(second.find("out.B.json: cannot be written"), std::string::npos)
      << "of two servers these are the files: " << second;
  EXPECT_NE(message([](auto& c) { c.topics = c.text = "file"; }).find("--topics"), std::string::npos);
  // Each once, and first.
  const auto begins = [&](const std::string& with, const std::function<void(ReplayConfig&)>& change) {
    EXPECT_TRUE(message(change).starts_with(with)) << message(change);
  };
  begins("--slice: expected START", [](auto& c) { c.slice = "10"; });
  begins("--slice: no request of", [](auto& c) { c.slice = "1000,1"; });
  begins("--lengths: 'stretch'", [](auto& c) { c.lengths = "stretch"; });
  begins("--speedup: expected", [](auto& c) { c.speedup = 0; });
  begins("--slo: expected a time", [](auto& c) { c.slo = {"a:ttft=fast"}; });
  begins("--mix: class 'gold'", [](auto& c) { c.mix = {{"gold", 1}}; });
  begins("--synthetic.rate: expected", [](auto& c) { c.synthetic.rate = 0; });
  begins("--synthetic.gaps: 'even'", [](auto& c) { c.gaps = "even"; });
  begins("--synthetic.duration: no request", [](auto& c) {
    c.synthetic.duration_s = 0.1;
    c.synthetic.rate = 1e-3;
  });
  begins("--text: /nowhere: cannot be read", [](auto& c) { c.text = "/nowhere"; });
  begins("--topics: /nowhere: cannot be read", [](auto& c) { c.topics = "/nowhere"; });
  begins("--tokenizer: /nowhere", [](auto& c) { c.tokenizer = "/nowhere"; });
  CompareConfig compare;
  EXPECT_THROW(compare_command(compare), ConfigError);
}

}  // namespace
}  // namespace lynx
