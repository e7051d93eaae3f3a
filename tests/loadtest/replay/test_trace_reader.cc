#include <gtest/gtest.h>

#include <set>
#include <string>

#include "loadtest/replay/trace_reader.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

Trace read(const std::string& text, const std::string& format = "auto") {
  auto trace = read_trace_text(text, "t", format);
  EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error().message);
  return trace.ok() ? *trace : Trace{};
}

std::string error_of(const std::string& text, const std::string& format = "auto") {
  const auto trace = read_trace_text(text, "t", format);
  return trace.ok() ? "no error" : trace.error().message;
}

void expect_rejected(const Trace& trace, std::size_t place, std::size_t line, const std::string& reason) {
  ASSERT_LT(place, trace.rejected.first.size());
  EXPECT_EQ(trace.rejected.first[place].line, line);
  EXPECT_NE(trace.rejected.first[place].reason.find(reason), std::string::npos)
      << trace.rejected.first[place].reason;
}

TEST(TraceReader, Azure2023) {
  const auto trace = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:17:03.9799600,4808,10\n"
      "2023-11-16 18:17:04.0319600,3180,8\n"
      "2023-11-16 18:17:04,x,8\n"
      "yesterday,1,1\n"
      "2023-11-16 18:17:05.0000000,110,27");
  EXPECT_EQ(trace.format, "azure");
  ASSERT_EQ(trace.requests.size(), 3u);
  EXPECT_EQ(trace.requests[0].at, 0ns);
  EXPECT_EQ(trace.requests[1].at, 52ms);
  EXPECT_EQ(trace.requests[0].input_tokens, 4808u);
  EXPECT_EQ(trace.requests[2].output_tokens, 27u) << "no newline at the end";
  EXPECT_EQ(trace.rejected.count, 2u);
  expect_rejected(trace, 0, 4, "ContextTokens");
  expect_rejected(trace, 1, 5, "TIMESTAMP");
}

TEST(TraceReader, Azure2024WithZonesMissingFractionsAndDisorder) {
  const auto trace = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2024-05-10 00:00:00.020000+00:00,988,44\r\n"
      "2024-05-10 00:00:00+00:00,1452,16\r\n"
      "2024-05-10 00:00:01+00:00,0,16\r\n");
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[0].input_tokens, 1452u) << "by time";
  EXPECT_EQ(trace.requests[1].at, 20ms);
  expect_rejected(trace, 0, 4, "ContextTokens");
}

TEST(TraceReader, AzureMultimodalColumnsArePassedOver) {
  const auto trace =
      read("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:01.100000,1,1240,88\n");
  EXPECT_EQ(trace.requests[0].input_tokens, 1240u);
}

TEST(TraceReader, BurstGptBothLayoutsByName) {
  const auto old_layout = read(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "12,ChatGPT,310,95,405,Conversation log\n"
      "57,ChatGPT,88,0,88,API log\n"
      "58.5,ChatGPT,642,17,659,API log\n"
      "-1,ChatGPT,642,17,659,API log\n"
      "60,ChatGPT,642,17\n");
  EXPECT_EQ(old_layout.format, "burstgpt");
  ASSERT_EQ(old_layout.requests.size(), 2u);
  EXPECT_EQ(old_layout.requests[1].at, 46500ms);
  expect_rejected(old_layout, 0, 3, "failed when it was recorded");
  expect_rejected(old_layout, 1, 5, "Timestamp");
  expect_rejected(old_layout, 2, 6, "6 columns");

  const auto new_layout = read(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "19440100.0,00000000-0000-4000-8000-000000000001,41,GPT-4,900,440,1340,Conversation log\n"
      "19440103.0,,3,ChatGPT,120,64,184,API log\n");
  EXPECT_EQ(new_layout.requests[1].input_tokens, 120u);
  EXPECT_EQ(new_layout.requests[1].output_tokens, 64u);
  EXPECT_EQ(new_layout.requests[1].at, 3s);
}

TEST(TraceReader, Mooncake) {
  const auto trace =
      read(R"({"timestamp": 3000, "input_length": 1025, "output_length": 5, "hash_ids": [0, 7, 9]})"
           "\n"
           R"({"timestamp": 6001, "input_length": 512, "output_length": 5, "hash_ids": [0, 1]})"
           "\n"
           R"({"timestamp": "soon", "input_length": 512, "output_length": 5, "hash_ids": [0]})"
           "\n"
           R"({"timestamp": 6001, "input_length": 512, "output_length": 0, "hash_ids": [0]})"
           "\n"
           R"({"timestamp": 6001, "input_length": 512, "output_length": 1, "hash_ids": [-1]})"
           "\n{\n\n"
           R"({"timestamp": 6001, "input_length": 512, "output_length": 1, "hash_ids": [0]})");
  EXPECT_EQ(trace.format, "mooncake");
  EXPECT_EQ(trace.block_tokens, 512u);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[0].hash_ids, (std::vector<std::uint64_t>{0, 7, 9}));
  EXPECT_EQ(trace.requests[1].at, 3001ms);
  expect_rejected(trace, 0, 2, "hash_ids is not input_length / 512");
  expect_rejected(trace, 1, 3, "timestamp");
  expect_rejected(trace, 2, 4, "output_length");
  expect_rejected(trace, 3, 5, "hash_ids");
  expect_rejected(trace, 4, 6, "not a JSON object");
  EXPECT_EQ(trace.rejected.count, 5u) << "a blank line is no row";
}

TEST(TraceReader, QwenInSeconds) {
  const auto trace = read(
      R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.412, "input_length": 40, "output_length": 120, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]})"
      "\n"
      R"({"chat_id": 3, "parent_chat_id": 1, "timestamp": 31.5, "input_length": 64, "output_length": 80, "type": "text", "turn": 2, "hash_ids": [1, 2, 6, 7]})"
      "\n"
      R"({"chat_id": 4, "timestamp": 32, "input_length": 64, "output_length": 80})");
  EXPECT_EQ(trace.format, "qwen");
  EXPECT_EQ(trace.block_tokens, 16u);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[1].at, 31088ms);
  expect_rejected(trace, 0, 3, "hash_ids is missing");
}

TEST(TraceReader, ManyRejectedRowsAreCountedAndSomeShown) {
  std::string text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,1\n";
  for (int i = 0; i < 100; ++i) text += "2023-11-16 18:17:03,0,1\n";
  const auto trace = read(text);
  EXPECT_EQ(trace.rejected.count, 100u);
  EXPECT_EQ(trace.rejected.first.size(), RejectedRows::kShown);
  EXPECT_EQ(trace.rejected.by_reason.begin()->second, 100u);
}

TEST(TraceReader, FilesThatAreNoTraceAreNamed) {
  EXPECT_EQ(error_of(""), "t:1: the first line is of no known trace format");
  EXPECT_EQ(error_of("a,b,c\n1,2,3\n"), "t:1: the first line is of no known trace format");
  EXPECT_EQ(error_of("TIMESTAMP,ContextTokens\n"), "t:1: the header has no column 'GeneratedTokens'");
  EXPECT_EQ(error_of("TIMESTAMP,ContextTokens,GeneratedTokens\n"), "t: no request in it");
  EXPECT_EQ(error_of("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n"),
            "t: no request in it; line 2: TIMESTAMP is not YYYY-MM-DD HH:MM:SS[.fraction][zone]");
  EXPECT_NE(error_of("x", "csv").find("'csv' is not one of"), std::string::npos);
  EXPECT_NE(read_trace_file("/nonexistent", "auto").error().message.find("/nonexistent: No such file"),
            std::string::npos);
}

// Whole files of every format, made up by data/make_samples.py, which also says what is in them.
struct Sample {
  const char* file;
  const char* format;
  std::uint32_t block_tokens;
  std::size_t requests, rejected;
  std::chrono::nanoseconds last;
  std::uint64_t input_tokens, output_tokens;
  std::size_t blocks, distinct_blocks;
  const char* sha256;
};

const Sample kSamples[] = {
    {"azure_2023.csv", "azure", 0, 60, 0, 17086017000ns, 141804, 1299, 0, 0,
     "07d6ec3233658a10e399f6c91afb609516a7006459fc2e42316436133f84b216"},
    {"azure_2024.csv", "azure", 0, 60, 0, 17086017000ns, 141804, 1299, 0, 0,
     "487bf275c961d56fcedc1ae3986ddc47321fbf2ed04ad6b3ac5d177b8926205e"},
    {"burstgpt.csv", "burstgpt", 0, 54, 6, 191s, 24082, 11051, 0, 0,
     "ddaf7d0256fc0a31528e567ce0a199937ff821572f727dd5029de9b092d5c92b"},
    {"mooncake.jsonl", "mooncake", 512, 60, 0, 21s, 625391, 10666, 1251, 198,
     "a744a129f0bb052eb5b16bda867a0df20adab66f70e2f5951c8f395349526d51"},
    {"qwen.jsonl", "qwen", 16, 60, 0, 15653ms, 28083, 13754, 1783, 267,
     "93ecb1f18236a8f999b822f88f20fc13b23f78a47af82a43f839f637d55cc841"},
};

TEST(TraceReader, WholeFilesOfEveryFormat) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.file);
    const auto read =
        read_trace_file(source_path(std::string("tests/loadtest/replay/data/") + sample.file), "auto");
    ASSERT_TRUE(read.ok()) << read.error().message;
    const Trace& trace = *read;
    EXPECT_TRUE(trace.name.ends_with(sample.file)) << trace.name;
    EXPECT_EQ(trace.format, sample.format);
    EXPECT_EQ(trace.sha256, sample.sha256);
    EXPECT_EQ(trace.block_tokens, sample.block_tokens);
    EXPECT_EQ(trace.rejected.count, sample.rejected);
    ASSERT_EQ(trace.requests.size(), sample.requests);
    EXPECT_EQ(trace.requests.front().at, 0ns);
    EXPECT_EQ(trace.requests.back().at, sample.last);
    std::uint64_t input = 0, output = 0;
    std::size_t blocks = 0;
    std::set<std::uint64_t> distinct;
    for (const TraceRequest& request : trace.requests) {
      input += request.input_tokens;
      output += request.output_tokens;
      blocks += request.hash_ids.size();
      distinct.insert(request.hash_ids.begin(), request.hash_ids.end());
    }
    EXPECT_EQ(input, sample.input_tokens);
    EXPECT_EQ(output, sample.output_tokens);
    EXPECT_EQ(blocks, sample.blocks);
    EXPECT_EQ(distinct.size(), sample.distinct_blocks);
  }
}

}  // namespace
}  // namespace lynx
