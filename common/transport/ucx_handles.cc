#include "common/transport/ucx_handles.h"

#include <ucs/config/global_opts.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/core/log.h"
#include "common/transport/ucx_address.h"
#include "common/transport/ucx_devices.h"
#include "common/transport/ucx_info.h"
#include "common/transport/ucx_log.h"

namespace lynx {

namespace {

[[noreturn]] void fail(const std::string& what, ucs_status_t status) {
  throw std::runtime_error("UCX: " + what + ": " + ucs_status_string(status));
}

using Settings = std::vector<std::pair<std::string, std::string>>;

// Up to 1.13 UCX finds a transport's own setting without the transport's prefix, later with it.
const char* tcp_segment_setting() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return major == 1 && minor <= 13 ? "RX_SEG_SIZE" : "TCP_RX_SEG_SIZE";
}

// Why each: ucx_transport.h.
Settings settings_for(const UcxConfig& config, KvMemory memory) {
  const bool device = memory == KvMemory::kDevice;
  // Also for a host pool: without it UCX finds no way to a peer whose pool lies on a device.
  const std::string between_devices = device || ucx_moves_device_memory() ? ",cuda" : "";
  const char* scheme = device ? "get_zcopy" : "am";
  Settings settings{{"KEEPALIVE_INTERVAL", std::to_string(config.keepalive.count()) + "ms"},
                    {"RNDV_THRESH", std::to_string(config.rndv_threshold)}};
  if (!config.net_devices.empty()) settings.emplace_back("NET_DEVICES", config.net_devices);
  if (config.transport == "auto") settings.emplace_back("TLS", "^sm");
  if (config.transport == "rdma") settings.emplace_back("TLS", "rc,dc,ud" + between_devices);
  if (config.transport == "tcp") settings.emplace_back("TLS", "tcp" + between_devices);
  if (config.transport == "shm")
    settings.insert(settings.end(), {{"TLS", "posix" + between_devices}, {"MM_ERROR_HANDLING", "y"}});
  if (device || config.transport == "tcp" || config.transport == "shm")
    settings.emplace_back("RNDV_SCHEME", scheme);
  // TCP fragments: a quarter faster than with the default of 64K; still larger ones lose it again.
  if (config.transport == "tcp" || config.transport == "auto")
    settings.emplace_back(tcp_segment_setting(), "128K");
  return settings;
}

// By itself UCX fetches over CUDA IPC only where it sees NVLink, and copies by the CPU otherwise: also within
// one GPU, and in virtual machines that do not show the links. The setting is there once
// UCX has loaded its CUDA module, which the question does.
void allow_fetching(ucp_config_t* config) {
  if (!ucx_moves_device_memory()) return;
  if (const auto status = ucp_config_modify(config, "CUDA_IPC_ENABLE_GET_ZCOPY", "on"); status != UCS_OK)
    log::warn("UCX: CUDA_IPC_ENABLE_GET_ZCOPY: {}: KV between GPUs may go over the CPU",
              ucs_status_string(status));
}

std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> read_config(const Settings& settings) {
  ucp_config_t* raw = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &raw); status != UCS_OK)
    fail("reading UCX_*", status);
  std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> config(raw, ucp_config_release);
  for (const auto& [name, value] : settings)
    if (const auto status = ucp_config_modify(raw, name.c_str(), value.c_str()); status != UCS_OK)
      fail("setting " + name + "=" + value, status);
  return config;
}

// UCX trusts its cache of memory kinds more than what a call tells it, and the cache knows a device's memory
// only from hooks into the driver's allocator (libucm_cuda), which we do without: what it has not seen it
// would touch with the CPU. Without the cache it asks the driver, once for each message.
void distrust_memory_cache() {
  if (const auto status = ucs_global_opts_set_value("MEMTYPE_CACHE", "n"); status != UCS_OK)
    fail("setting MEMTYPE_CACHE", status);
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out.empty() ? "none" : out;
}

std::vector<std::string> resources_of(ucp_context_h context) {
  return ucx_resources(captured([context](std::FILE* out) { ucp_context_print_info(context, out); }));
}

void check_required(const UcxConfig& config, const std::vector<std::string>& resources) {
  if (config.require_transport.empty()) return;
  for (const std::string& resource : resources)
    if (ucx_kind(resource.substr(0, resource.find('/'))) == config.require_transport) return;
  throw std::runtime_error("ucx.require_transport is '" + config.require_transport +
                           "', but this machine offers only " + joined(resources));
}

// UCX itself only warns of a name that it does not know, and goes on with a worker that nobody can reach.
void check_devices(const UcxConfig& config) {
  if (config.net_devices.find_first_of("^[*") != std::string::npos) return;  // patterns
  const UcxContext all = UcxContext::of_every_device();
  const auto devices = ucx_network_devices(resources_of(all.get()));
  std::istringstream names(config.net_devices);
  for (std::string name; std::getline(names, name, ',');) {
    const auto fits = [&](const std::string& device) {  // "mlx5_0" stands for its ports, too
      return name == "all" || device == name || device.starts_with(name + ":");
    };
    if (std::none_of(devices.begin(), devices.end(), fits))
      throw ConfigError("ucx.net_devices: there is no device '" + name + "'; UCX finds " + joined(devices));
  }
}

}  // namespace

Error ucx_error(ErrorCode code, const std::string& what, ucs_status_t status) {
  return {code, what + ": " + ucs_status_string(status)};
}

ucs_memory_type_t ucx_memory_type(KvMemory memory) {
  return memory == KvMemory::kDevice ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

UcxContext::UcxContext(const UcxConfig& config, KvMemory memory) {
  config.validate();
  forward_ucx_log();
  if (memory == KvMemory::kDevice) distrust_memory_cache();
  const auto settings = read_config(settings_for(config, memory));
  if (memory == KvMemory::kDevice) allow_fetching(settings.get());
  const bool by_network = config.transport != "shm";
  if (by_network && !config.net_devices.empty()) check_devices(config);
  open(settings.get(), "no device for transport '" + config.transport + "' on this machine");
  const auto resources = resources_of(get());
  check_required(config, resources);
  if (by_network && ucx_network_devices(resources).empty())
    throw ConfigError(
        "ucx.net_devices: UCX finds no network device that it may use; $UCX_NET_DEVICES and "
        "$UCX_TLS have their say, too");
}

UcxContext UcxContext::of_every_device() {
  UcxContext out;
  out.open(read_config({{"NET_DEVICES", "all"}, {"TLS", "^sm"}}).get(), "looking for devices");
  return out;
}

void UcxContext::open(const ucp_config_t* settings, const std::string& otherwise) {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "lynx";
  ucp_context_h raw = nullptr;
  if (const auto status = ucp_init(&params, settings, &raw); status != UCS_OK) fail(otherwise, status);
  context_.reset(raw);
}

UcxWorker::UcxWorker(const UcxContext& context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h raw = nullptr;
  if (const auto status = ucp_worker_create(context.get(), &params, &raw); status != UCS_OK)
    fail("creating a worker", status);
  worker_.reset(raw);
  if (const auto status = ucp_worker_get_efd(raw, &event_fd_); status != UCS_OK)
    fail("event descriptor", status);

  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  if (const auto status = ucp_worker_query(raw, &attributes); status != UCS_OK)
    fail("worker address", status);
  address_ = seal_address({reinterpret_cast<const char*>(attributes.address), attributes.address_length});
  max_header_ = attributes.max_am_header;
  ucp_worker_release_address(raw, attributes.address);
}

void UcxWorker::on_message(unsigned id, ucp_am_recv_callback_t handler, void* arg) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  params.cb = handler;
  params.arg = arg;
  if (const auto status = ucp_worker_set_am_recv_handler(worker_.get(), &params); status != UCS_OK)
    fail("active message handler", status);
}

UcxClose::UcxClose(ucp_ep_h endpoint) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(endpoint, &params);
  if (UCS_PTR_IS_PTR(request)) request_ = request;
}

UcxClose::~UcxClose() {
  if (request_ != nullptr) ucp_request_free(request_);
}

bool UcxClose::finished() {
  if (request_ == nullptr) return true;
  if (ucp_request_check_status(request_) == UCS_INPROGRESS) return false;
  ucp_request_free(std::exchange(request_, nullptr));
  return true;
}

Result<std::unique_ptr<UcxEndpoint>> UcxEndpoint::connect(const UcxWorker& worker,
                                                          const std::string& address) {
  const auto raw = open_address(address);
  if (!raw) return raw.error();
  std::unique_ptr<UcxEndpoint> self(new UcxEndpoint);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(raw->data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = self.get();
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxEndpoint*>(arg)->failure_ = status;
  };
  if (const auto status = ucp_ep_create(worker.get(), &params, &self->endpoint_); status != UCS_OK) {
    self->endpoint_ = nullptr;
    return ucx_error(ErrorCode::kUnavailable, "cannot connect", status);
  }
  return self;
}

void UcxEndpoint::close() {
  if (endpoint_ != nullptr) close_ = std::make_unique<UcxClose>(std::exchange(endpoint_, nullptr));
}

}  // namespace lynx
