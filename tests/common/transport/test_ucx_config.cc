// Settings that are refused before a worker serves, and what this machine offers.
#include <gtest/gtest.h>

#include <filesystem>

#include "common/transport/ucx_info.h"
#include "common/transport/ucx_transport.h"

namespace lynx {
namespace {

TEST(UcxConfig, NamesWhatIsWrong) {
  const auto message = [](UcxConfig config) -> std::string {
    try {
      config.validate();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  UcxConfig config;
  EXPECT_EQ(message(config), "");
  config.transport = "carrier pigeon";
  EXPECT_EQ(message(config), "ucx.transport: expected auto, tcp, shm or rdma, got 'carrier pigeon'");
  config = {};
  config.transport = "tcp";
  config.require_transport = "rdma";
  EXPECT_TRUE(message(config).starts_with("ucx.require_transport"));
  config = {};
  config.max_in_flight = 0;
  EXPECT_TRUE(message(config).starts_with("ucx.max_in_flight"));
}

// With a device it starts, without one it says what there is instead.
TEST(UcxConfig, AskingForRdmaIsRefusedAtStartWhereThereIsNone) {
  const SteadyClock clock;
  UcxConfig config;
  config.transport = "auto";
  config.require_transport = "rdma";
  try {
    const UcxTransport transport(config, clock);
    EXPECT_TRUE(std::filesystem::exists("/sys/class/infiniband")) << "it started without any RDMA device";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("ucx.require_transport is 'rdma', but this machine offers only"),
              std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("tcp"), std::string::npos) << e.what();
  }
}

// UCX alone would start: nobody could reach such a worker, and every request to it would fail.
TEST(UcxConfig, ADeviceThatDoesNotExistIsRefusedAtStartWithThoseThatDo) {
  const SteadyClock clock;
  UcxConfig config;
  for (const char* transport : {"auto", "tcp"}) {
    config.transport = transport;
    for (const char* devices : {"nope0", "lo,nope0"}) {
      config.net_devices = devices;
      try {
        const UcxTransport started(config, clock);
        ADD_FAILURE() << "started with " << devices;
      } catch (const ConfigError& e) {
        const std::string what = e.what();
        EXPECT_NE(what.find("ucx.net_devices: there is no device 'nope0'"), std::string::npos) << what;
        EXPECT_NE(what.find("lo"), std::string::npos) << what;
      }
    }
    for (const char* devices : {"lo", "all"}) {
      config.net_devices = devices;
      EXPECT_NO_THROW(UcxTransport(config, clock)) << devices;
    }
  }
}

TEST(UcxInfo, NetworkDevicesAreToldFromMemory) {
  EXPECT_EQ(ucx_network_devices({"self/memory0", "tcp/eth0", "posix/memory", "rc_mlx5/mlx5_0:1",
                                 "ud_mlx5/mlx5_0:1", "cuda_copy/cuda"}),
            (std::vector<std::string>{"eth0", "mlx5_0:1"}));
}

}  // namespace
}  // namespace lynx
