#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "loadtest/replay/client_pool.h"
#include "loadtest/replay/statistics.h"

namespace lynx {
namespace {

namespace fs = std::filesystem;

class PoolFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lynx-pool-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  // A steady client without published lengths and a bursty one with them, over two windows.
  void write_pool() {
    write("chunk-0-trace.csv", "0,2,1,Gamma,1,0.5\n600,4,1,Gamma,1,0.25\n");
    write("chunk-1-trace.csv", "0,1,4,Weibull,0.4,0.3\n600,0,0,,0,0\n");
    write(
        "chunk-1-dataset.json",
        R"({"0": {"input_tokens": "{10: 0.25, 30: 0.75}", "output_tokens": "{5: 1.0}", "reason_ratio": "{0.5: 1.0}"},)"
        R"( "600": {"input_tokens": "{}", "output_tokens": "{}"}})");
    write("README.txt", "no client");
  }
  std::string error_of() {
    const auto pool = read_client_pool(folder_.string());
    return pool.ok() ? "" : pool.error().message;
  }

  fs::path folder_;
};

TEST_F(PoolFolder, DrawsTheRecordedRatesAndLengths) {
  write_pool();
  const auto pool = read_client_pool(folder_.string());
  ASSERT_TRUE(pool.ok()) << pool.error().message;
  EXPECT_EQ(pool->clients.size(), 2u);
  EXPECT_EQ(pool->window_s, 600);
  EXPECT_EQ(pool->span_s, 1200);
  const auto trace = draw_trace(*pool, {.start_s = 0,
                                        .duration_s = 1200,
                                        .input = {.median = 7, .sigma = 0, .most = 100},
                                        .output = {.median = 9, .sigma = 0, .most = 100},
                                        .seed = 3});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(trace->requests.size(), 600u * 2 + 600 * 4 + 600) << "whole numbers are not rounded at random";
  std::size_t own = 0, tens = 0;
  for (const TraceRequest& r : trace->requests) {
    if (r.input_tokens == 7) {
      EXPECT_EQ(r.output_tokens, 9u);
      continue;
    }
    ++own;
    tens += r.input_tokens == 10 ? 1 : 0;
    EXPECT_EQ(r.output_tokens, 5u);
    EXPECT_LT(r.at, std::chrono::seconds(600)) << "idle afterwards";
  }
  EXPECT_EQ(own, 600u);
  EXPECT_NEAR(static_cast<double>(tens) / 600, 0.25, 0.06);
}

TEST_F(PoolFolder, ASliceHoldsTheArrivalsThatTheWholeHas) {
  write_pool();
  const auto pool = read_client_pool(folder_.string());
  const auto whole = draw_trace(*pool, {.start_s = 0, .duration_s = 1200, .seed = 3});
  const auto slice = draw_trace(*pool, {.start_s = 550, .duration_s = 100, .seed = 3});
  ASSERT_TRUE(slice.ok());
  std::vector<std::int64_t> expected, got;
  for (const TraceRequest& r : whole->requests)
    if (r.at >= std::chrono::seconds(550) && r.at < std::chrono::seconds(650))
      expected.push_back(r.at.count() - 550'000'000'000);
  for (const TraceRequest& r : slice->requests) got.push_back(r.at.count());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(static_cast<double>(got[i]), static_cast<double>(expected[i]), 2);
}

TEST_F(PoolFolder, ARateScalesEveryClient) {
  write_pool();
  const auto pool = read_client_pool(folder_.string());
  const auto trace = draw_trace(*pool, {.start_s = 0, .duration_s = 600, .rate = 0.5, .seed = 1});
  ASSERT_TRUE(trace.ok());
  EXPECT_NEAR(static_cast<double>(trace->requests.size()), 300, 3);
  const auto other = draw_trace(*pool, {.start_s = 0, .duration_s = 600, .rate = 0.5, .seed = 2});
  EXPECT_NE(trace->requests[0].at, other->requests[0].at);
}

TEST_F(PoolFolder, GapsKeepTheirShape) {
  write("chunk-0-trace.csv", "0,20,3,Gamma,0.111,1\n");
  const auto pool = read_client_pool(folder_.string());
  const auto trace = draw_trace(*pool, {.start_s = 0, .duration_s = 600, .seed = 4});
  std::vector<double> gaps;
  for (std::size_t i = 1; i < trace->requests.size(); ++i)
    gaps.push_back(std::chrono::duration<double>(trace->requests[i].at - trace->requests[i - 1].at).count());
  const Summary s = summarize(gaps);
  EXPECT_NEAR(s.std / s.mean, 3, 0.3) << "the CV of a gamma of shape 1/9";
}

TEST_F(PoolFolder, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_NE(error_of().find("no chunk-<client>-trace.csv"), std::string::npos);
  write("chunk-0-trace.csv", "0,2,1,Gamma,1,0.5\n600,-4,1,Gamma,1,0.25\n");
  EXPECT_NE(error_of().find("chunk-0-trace.csv:2: rate is no number"), std::string::npos) << error_of();
  write("chunk-0-trace.csv", "0,2,1,Pareto,1,0.5\n");
  EXPECT_NE(error_of().find(":1: pattern 'Pareto'"), std::string::npos) << error_of();
  write("chunk-0-trace.csv", "0,2,1,Gamma,nan,0.5\n");
  EXPECT_NE(error_of().find(":1: shape"), std::string::npos) << error_of();
  write("chunk-0-trace.csv", "0,2,1,Gamma,1,0.5\n");
  write("chunk-0-dataset.json", R"({"0": {"input_tokens": "{10: 0.25", "output_tokens": "{}"}})");
  EXPECT_NE(error_of().find("0.input_tokens: expected a comma"), std::string::npos) << error_of();
  write("chunk-0-dataset.json", "[]");
  EXPECT_NE(error_of().find("chunk-0-dataset.json: no JSON object"), std::string::npos) << error_of();
  fs::remove(folder_ / "chunk-0-dataset.json");
  fs::create_directory(folder_ / "chunk-0-dataset.json");  // is there, and is no file
  EXPECT_NE(error_of().find("chunk-0-dataset.json: cannot be read"), std::string::npos) << error_of();
  fs::remove(folder_ / "chunk-0-dataset.json");
  fs::create_symlink(folder_ / "lost", folder_ / "chunk-0-dataset.json");
  EXPECT_NE(error_of().find("chunk-0-dataset.json: cannot be read"), std::string::npos) << error_of();
  EXPECT_NE(read_client_pool("/nowhere").error().message.find("/nowhere"), std::string::npos);
}

// The width is one for the whole pool: of every row of every client.
TEST_F(PoolFolder, AWindowOutOfItsPlaceIsNamed) {
  write("chunk-0-trace.csv",
        "0,2,1,Gamma,1,0.5\n600,2,1,Gamma,1,0.5\n1200,2,1,Gamma,1,0.5\n1500,2,1,Gamma,1,1\n");
  EXPECT_NE(error_of().find("chunk-0-trace.csv:4: window_start is 300 s after that of the row before, where "
                            "windows are 600 s wide"),
            std::string::npos)
      << error_of();
  write("chunk-0-trace.csv", "0,2,1,Gamma,1,0.5\n600,2,1,Gamma,1,0.5\n\n600,2,1,Gamma,1,0.5\n");
  EXPECT_NE(error_of().find("chunk-0-trace.csv:4: window_start does not come after"), std::string::npos)
      << error_of();
  write("chunk-0-trace.csv", "0,2,1,Gamma,1,0.5\n600,2,1,Gamma,1,0.5\n");
  write("chunk-1-trace.csv", "0,2,1,Gamma,1,0.5\n60,2,1,Gamma,1,0.5\n");
  EXPECT_NE(error_of().find("chunk-1-trace.csv:2: window_start is 60 s after"), std::string::npos)
      << error_of();
  write("chunk-1-trace.csv", "1200,2,1,Gamma,1,0.5\n");  // one row tells no width
  EXPECT_EQ(error_of(), "");
  EXPECT_EQ(read_client_pool(folder_.string())->span_s, 1800);
}

TEST_F(PoolFolder, OptionsOutOfRangeAreRefused) {
  write_pool();
  const auto pool = read_client_pool(folder_.string());
  const auto error = [&](const PoolOptions& options) { return draw_trace(*pool, options).error().message; };
  EXPECT_TRUE(error({.start_s = 5000}).starts_with("start: ")) << error({.start_s = 5000});
  EXPECT_NE(error({.start_s = 5000}).find("covers 1200 s"), std::string::npos);
  EXPECT_TRUE(error({.duration_s = 0}).starts_with("duration: "));
  EXPECT_TRUE(error({.rate = -1}).starts_with("rate: "));
  EXPECT_TRUE(error({.rate = std::nan("")}).starts_with("rate: "));
  EXPECT_TRUE(error({.duration_s = 1, .rate = 1e-9}).starts_with("duration, rate: no request of"));
  write("chunk-0-trace.csv", "0,0,0,,0,0\n600,4,1,Gamma,1,0.25\n");
  write("chunk-1-trace.csv", "0,0,0,,0,0\n600,0,0,,0,0\n");
  const auto late = read_client_pool(folder_.string());
  EXPECT_TRUE(
      draw_trace(*late, {.duration_s = 600}).error().message.starts_with("start, duration: every client"));
}

// A short slice of a long and busy window: the window is what would fill the memory.
TEST_F(PoolFolder, AWindowThatIsTooFullIsRefused) {
  write("chunk-0-trace.csv", "0,1000000,1,Gamma,1,1\n600,1000000,1,Gamma,1,1\n");
  const auto pool = read_client_pool(folder_.string());
  const auto slice = draw_trace(*pool, {.start_s = 0, .duration_s = 1, .seed = 1});
  ASSERT_FALSE(slice.ok());
  EXPECT_NE(slice.error().message.find("more than 3e7 requests in the windows of 600 s"), std::string::npos)
      << slice.error().message;
  EXPECT_TRUE(draw_trace(*pool, {.start_s = 0, .duration_s = 1, .rate = 10, .seed = 1}).ok());
}

TEST(LengthTable, ReadsADictLiteral) {
  const auto table = parse_length_table("{45: 0.5, 46:1.5 , 0: 0.0}");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->tokens, (std::vector<std::uint32_t>{1, 45, 46})) << "no tokens is one token";
  EXPECT_EQ(table->draw(0), 45u);
  EXPECT_EQ(table->draw(0.2499), 45u);
  EXPECT_EQ(table->draw(0.25), 46u);
  EXPECT_EQ(table->draw(0.9999999), 46u);
  EXPECT_TRUE(parse_length_table("{}")->empty());
  for (const char* bad : {"", "{", "{1}", "{1:}", "{1: 2", "{a: 1}", "{1: -1}", "{1: 0}", "{1: nan}",
                          "{1: 1 2: 1}", "{1: 1}}", "{}, 2", "{1: 1} {2: 1}"})
    EXPECT_FALSE(parse_length_table(bad).ok()) << bad;
}

}  // namespace
}  // namespace lynx
