// Which way KV takes between a worker's device and the other worker.
#include "services/worker/kv_path.h"

#include <gtest/gtest.h>

#include "common/config/yaml_reader.h"

namespace lynx {
namespace {

constexpr KvPathFacts kCpu{.gpu = false, .ucx_moves_device_memory = false, .checksum = false};
constexpr KvPathFacts kPlainUcx{.gpu = true, .ucx_moves_device_memory = false, .checksum = false};
constexpr KvPathFacts kCudaUcx{.gpu = true, .ucx_moves_device_memory = true, .checksum = false};
constexpr KvPathFacts kChecked{.gpu = true, .ucx_moves_device_memory = true, .checksum = true};

std::string refusal(const std::string& wanted, const KvPathFacts& facts) {
  try {
    static_cast<void>(choose_kv_path(wanted, facts));
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(KvPath, AutoIsPinnedOnAGpuWhateverUcxCanDo) {
  EXPECT_EQ(choose_kv_path("auto", kCpu), KvPath::kHost);
  EXPECT_EQ(choose_kv_path("auto", kPlainUcx), KvPath::kPinned);
  EXPECT_EQ(choose_kv_path("auto", kCudaUcx), KvPath::kPinned) << "the other worker may be elsewhere";
  EXPECT_EQ(choose_kv_path("auto", kChecked), KvPath::kPinned);
}

TEST(KvPath, WhatIsAskedForIsTakenOrRefusedWithTheReason) {
  EXPECT_EQ(choose_kv_path("pinned", kCudaUcx), KvPath::kPinned);
  EXPECT_EQ(choose_kv_path("pinned", kCpu), KvPath::kHost);
  EXPECT_EQ(choose_kv_path("device", kCudaUcx), KvPath::kDevice);
  EXPECT_NE(refusal("device", kCpu).find("kv.path: 'device', but this worker computes on the CPU"),
            std::string::npos);
  EXPECT_NE(refusal("device", kPlainUcx).find("kv.path: 'device', but this UCX"), std::string::npos);
  EXPECT_NE(refusal("device", kChecked).find("ucx.checksum"), std::string::npos);
}

TEST(KvPath, OnlyTheDevicesPoolIsMovedWithoutTheHost) {
  EXPECT_EQ(memory_of(KvPath::kHost), KvMemory::kHost);
  EXPECT_EQ(memory_of(KvPath::kPinned), KvMemory::kHost);
  EXPECT_EQ(memory_of(KvPath::kDevice), KvMemory::kDevice);
}

}  // namespace
}  // namespace lynx
