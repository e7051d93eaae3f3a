// Which GPUs are taken, and what is said of the others, and of a kernel that gave up. Needs none.
#include "kernels/cuda/device.h"

#include <gtest/gtest.h>

#include "kernels/cuda/long_wait.h"

namespace lynx::cuda {
namespace {

GpuInfo gpu(const std::string& name, int major, int minor) {
  GpuInfo info;
  info.name = name;
  info.major = major;
  info.minor = minor;
  return info;
}

TEST(CudaDevice, GpusFromAmpereOnAreTakenIfTheBuildHasCodeForThem) {
  for (const GpuInfo& known : {gpu("NVIDIA A100", 8, 0), gpu("NVIDIA L4", 8, 9), gpu("NVIDIA H200", 9, 0),
                               gpu("NVIDIA B200", 10, 0)})
    EXPECT_EQ(capability_fault(known, true), "") << known.name;
}

TEST(CudaDevice, SaysWhichArchitecturesTheBuildHasCodeFor) {
  const std::string fault = capability_fault(gpu("NVIDIA A100", 8, 0), false);
  EXPECT_NE(fault.find("90a"), std::string::npos) << fault;
  EXPECT_NE(fault.find("NVIDIA A100 (8.0)"), std::string::npos) << fault;
  EXPECT_NE(fault.find("LYNX_CUDA_ARCHITECTURES"), std::string::npos) << fault;
}

TEST(CudaDevice, OlderGpusAreRefusedWhateverTheBuildHas) {
  for (const bool has_code : {false, true}) {
    const std::string fault = capability_fault(gpu("Tesla T4", 7, 5), has_code);
    EXPECT_NE(fault.find("8.0 or newer"), std::string::npos) << fault;
    EXPECT_NE(fault.find("Tesla T4 (7.5)"), std::string::npos) << fault;
  }
}

TEST(CudaDevice, SaysForWhatAKernelWaitedTooLong) {
  const auto note = [](LongWait what, std::uint32_t block) {
    return describe(LongWaitNote{static_cast<std::uint32_t>(what)} << kWaitOfNote | block);
  };
  EXPECT_EQ(describe(0), "");
  EXPECT_NE(note(LongWait::kMeeting, 131).find("block 131 of the attention block"), std::string::npos);
  EXPECT_NE(note(LongWait::kGateUp, 0).find("block 0 of the expert kernel"), std::string::npos);
}

}  // namespace
}  // namespace lynx::cuda
