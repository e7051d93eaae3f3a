#include "services/engine/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "services/engine/tensor_source.h"
#include "tests/services/engine/model_folder.h"

namespace lynx {
namespace {

using testing::safetensors_bytes;
using testing::TempFolder;

std::string error_of(const std::string& header, std::size_t data_bytes) {
  const auto bytes = safetensors_bytes(header, data_bytes);
  const auto parsed = parse_safetensors(bytes);
  return parsed ? "accepted" : parsed.error().message;
}

TEST(Safetensors, ReadsNamesShapesAndPlaces) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
      R"("a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"empty":{"dtype":"U8","shape":[0],"data_offsets":[32,32]}})";
  const auto bytes = safetensors_bytes(header, 32);
  const auto parsed = parse_safetensors(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->size(), 3U);
  const SafetensorsEntry& b = parsed->at("b");
  EXPECT_EQ(b.dtype, "F32");
  EXPECT_EQ(b.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(b.begin, 8 + header.size() + 8);
  EXPECT_EQ(b.end, bytes.size());
}

TEST(Safetensors, RefusesEveryBrokenHeaderAndNamesTheTensor) {
  struct {
    std::string header;
    std::size_t data;
    std::string message;
  } const cases[] = {
      {R"([])", 0, "does not start with '{'"},
      {R"({"a":)", 0, "header: "},
      {R"({"a":1})", 0, "a: expected dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4, "a: expected dtype"},
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4, "a: dtype is not a string"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "a: unknown dtype 'F31'"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "a: shape is not a list"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "a: shape holds something else"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "a: shape holds something else"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "a: data_offsets are not two"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, "a: data_offsets 0..8 lie outside"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "a: data_offsets 4..0 lie outside"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "a: dtype and shape do not make"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "a: dtype and shape"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       6, "b: overlaps"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[6,10]}})",
       10, "b: leaves a gap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "bytes after the last tensor"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "key 'a' stands twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "key 'dtype' stands twice"},
  };
  for (const auto& c : cases) {
    const std::string message = error_of(c.header, c.data);
    EXPECT_NE(message.find(c.message), std::string::npos) << c.header << "\n" << message;
  }
}

TEST(Safetensors, RefusesWrongLengths) {
  EXPECT_FALSE(parse_safetensors({}).ok());
  auto bytes = safetensors_bytes("{}", 0);
  ASSERT_TRUE(parse_safetensors(bytes).ok());
  EXPECT_FALSE(parse_safetensors(std::span(bytes).first(9)).ok());
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, sizeof(length));
    EXPECT_FALSE(parse_safetensors(bytes).ok()) << length;
  }
}

const std::string kTensorA = R"("a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]})";
const std::string kTensorB = R"("b":{"dtype":"F16","shape":[2],"data_offsets":[0,4]})";

std::string what(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CheckpointFolder, ChecksShapeTypeAndUse) {
  const TempFolder folder;
  folder.write("model.safetensors", safetensors_bytes("{" + kTensorA + "}", 8));
  CheckpointFolder source(folder.path());
  EXPECT_EQ(what([&] { source.check_all_used(); }),
            folder.path() + "/model.safetensors: a: this architecture has no such tensor");
  EXPECT_EQ(what([&] { (void)source.tensor("a", {4}); }),
            folder.path() + "/model.safetensors: a: shape [2, 2], but config.json asks for [4]");
  EXPECT_EQ(what([&] { (void)source.tensor("c", {4}); }), folder.path() + ": c: missing in the weights");
  EXPECT_EQ(source.tensor("a", {2, 2}).bytes.size(), 8U);
  EXPECT_EQ(what([&] { source.check_all_used(); }), "accepted");
}

TEST(CheckpointFolder, ReadsShards) {
  const TempFolder folder;
  folder.write("one.safetensors", safetensors_bytes("{" + kTensorA + "}", 8));
  folder.write("two.safetensors", safetensors_bytes("{" + kTensorB + "}", 4));
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  CheckpointFolder source(folder.path());
  EXPECT_EQ(source.tensor("a", {2, 2}).bytes.size(), 8U);
  EXPECT_EQ(what([&] { (void)source.tensor("b", {2}); }),
            folder.path() + "/two.safetensors: b: dtype F16 is not supported, only BF16 and F32");
}

TEST(CheckpointFolder, RefusesAnIndexThatDoesNotFit) {
  struct {
    std::string index, message;
  } const cases[] = {
      {"{", ": parse error at line 1"},
      {R"({})", "weight_map: expected an object"},
      {R"({"weight_map":{"a":1}})", "weight_map.a: expected a file name"},
      {R"({"weight_map":{"a":"../one.safetensors"}})",
       "weight_map.a: expected the name of a file in this folder"},
      {R"({"weight_map":{"a":"absent.safetensors"}})", "absent.safetensors: No such file"},
      {R"({"weight_map":{"z":"one.safetensors"}})", "weight_map.z: not in one.safetensors"},
      {R"({"weight_map":{"b":"one.safetensors","a":"one.safetensors"}})",
       "weight_map.b: not in one.safetensors"},
      {R"({"weight_map":{"b":"two.safetensors"}})",
       "weight_map: the files hold tensors that it does not list"},
      {R"({"weight_map":{"a":"one.safetensors","b":"again.safetensors"}})", "also in"},
  };
  const TempFolder folder;
  folder.write("one.safetensors", safetensors_bytes("{" + kTensorA + "}", 8));
  folder.write("again.safetensors", safetensors_bytes("{" + kTensorA + "}", 8));
  folder.write("two.safetensors", safetensors_bytes(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                                    R"("c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                                    2));
  for (const auto& c : cases) {
    folder.write("model.safetensors.index.json", c.index);
    const std::string message = what([&] { CheckpointFolder source(folder.path()); });
    EXPECT_NE(message.find(c.message), std::string::npos) << c.index << "\n" << message;
  }
}

TEST(CheckpointFolder, FingerprintFollowsNamesShapesAndContent) {
  const TempFolder folder;
  const auto fingerprint = [&](const std::string& header, std::byte last) {
    auto bytes = safetensors_bytes(header, 8);
    bytes.back() = last;
    folder.write("model.safetensors", bytes);
    return CheckpointFolder(folder.path()).fingerprint();
  };
  const std::uint64_t base = fingerprint("{" + kTensorA + "}", std::byte{1});
  EXPECT_EQ(base, fingerprint("{" + kTensorA + " }", std::byte{1}));
  EXPECT_NE(base, fingerprint("{" + kTensorA + "}", std::byte{2}));
  EXPECT_NE(base, fingerprint(R"({"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})", std::byte{1}));
  EXPECT_NE(base, fingerprint(R"({"x":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}})", std::byte{1}));
}

}  // namespace
}  // namespace lynx
