// UCX tells which transports it has and which it chose only in prose (ucp_context_print_info,
// ucp_ep_print_info); this reads that prose.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace lynx {

// What print writes to its stream. Empty when there is no memory for a stream.
std::string captured(const std::function<void(std::FILE*)>& print);

// "tcp/eth0", "posix/memory", ...: from ucp_context_print_info.
std::vector<std::string> ucx_resources(const std::string& context_info);

// "eth0", "mlx5_0:1", ...: the network devices among such resources, each once.
std::vector<std::string> ucx_network_devices(const std::vector<std::string>& resources);

// "tcp", "shm", "rdma", "self", or several joined by '+': from ucp_ep_print_info. Empty when nothing is
// connected.
std::string ucx_chosen_transport(const std::string& endpoint_info);

// The kind of one UCX transport: "rc_mlx5" -> "rdma", "posix" -> "shm"; an unknown name is its own kind.
std::string ucx_kind(const std::string& transport);

}  // namespace lynx
