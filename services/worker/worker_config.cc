#include "services/worker/worker_config.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "common/config/field_checks.h"
#include "common/config/model_folder.h"
#include "common/core/worker_name.h"
#include "services/engine/moe_transformer.h"

namespace lynx {

void WorkerConfig::describe(ConfigFields& f) {
  f.section("");
  f.field("log_level", &log_level, "trace, debug, info, warning, error or off");
  f.field("backend", &backend, "what computes: auto = a GPU where build and machine have one; cpu; cuda");
  f.field("threads", &threads, "of the forward pass on the CPU; 0 = every core");
  f.field("shutdown_grace", &shutdown_grace, "how long requests may go on after SIGTERM");
  f.field("routers", &routers, "host:port of each router; a DNS name may stand for several");
  f.section("worker");
  f.field("name", &worker_name, "unique in the cluster; empty = host-pid");
  f.section("model");
  f.field("path", &model_path, "Hugging Face folder: config.json, *.safetensors");
  f.field("name", &model_name, "name in the API; empty = the folder's name");
  f.field("load_format", &load_format, "auto = read the weights; dummy = random ones of that shape");
  f.section("http");
  f.field("host", &http_host, "address of metrics and probes");
  f.field("port", &http_port, "port of metrics and probes; 0 = any free one");
  f.section("control");
  f.field("secret_file", &secret_file, "shared secret of the cluster; empty = $LYNX_CLUSTER_SECRET");
  f.field("heartbeat", &heartbeat, "time between heartbeats");
  f.section("kv");
  f.field("blocks", &kv_blocks, "blocks of the pool; 0 = as many as kv.memory_mb holds");
  f.field("memory_mb", &kv_memory_mb, "size of the pool in MiB");
  f.field("block_tokens", &kv_block_tokens, "tokens of a block; equal on all workers");
  f.field("dtype", &kv_dtype, "f32 or bf16; equal on all workers");
  f.field("path", &kv_path,
          "between GPUs: pinned = over host memory; device = from GPU to GPU, between workers of one machine "
          "that share a PID and an IPC namespace; auto = pinned");
  ucx.describe(f, "ucx");
}

void WorkerConfig::validate() const {
  check_field(!model_path.empty(), "model.path", "is needed");
  check_field(threads <= 1024, "threads", "must be from 1 to 1024, or 0 for every core");
  check_field(worker_name.empty() || is_worker_name(worker_name), "worker.name",
              "must be 1 to 128 of A-Z a-z 0-9 . _ -");
  check_field(backend == "auto" || backend == "cpu" || backend == "cuda", "backend",
              "'" + backend + "' is not one of auto, cpu, cuda");
  check_field(load_format == "auto" || load_format == "dummy", "model.load_format",
              "'" + load_format + "' is not one of auto, dummy");
  check_field(!routers.empty(), "routers", "name at least one");
  static_cast<void>(router_addresses());
  check_field(heartbeat.count() > 0, "control.heartbeat", "must be above 0");
  check_field(kv_blocks > 0 || kv_memory_mb > 0, "kv.memory_mb",
              "must be above 0 when kv.blocks is not given");
  check_field(kv_block_tokens > 0 && kv_block_tokens <= 1024, "kv.block_tokens", "must be from 1 to 1024");
  check_field(kv_dtype == "f32" || kv_dtype == "bf16", "kv.dtype",
              "'" + kv_dtype + "' is not one of f32, bf16");
  check_field(kv_path == "auto" || kv_path == "device" || kv_path == "pinned", "kv.path",
              "'" + kv_path + "' is not one of auto, device, pinned");
  ucx.validate();
}

std::string WorkerConfig::name() const {
  if (!worker_name.empty()) return worker_name;
  char host[256] = "host";
  static_cast<void>(::gethostname(host, sizeof host - 1));
  return std::string(host) + "-" + std::to_string(::getpid());
}

std::string WorkerConfig::served_model() const { return served_model_name(model_name, model_path); }

std::vector<RouterAddress> WorkerConfig::router_addresses() const {
  std::vector<RouterAddress> out;
  for (const std::string& router : routers) out.push_back(parse_router(router));
  return out;
}

PageLayout WorkerConfig::layout(const ModelConfig& model) const {
  const KvDtype dtype = kv_dtype == "bf16" ? KvDtype::kBf16 : KvDtype::kF32;
  PageLayout layout = page_layout(model, 1, kv_block_tokens, dtype);
  const std::uint64_t fitting = (kv_memory_mb << 20) / layout.pool_bytes();
  layout.blocks =
      kv_blocks > 0 ? kv_blocks : static_cast<std::uint32_t>(std::min<std::uint64_t>(fitting, 1U << 30));
  check_field(layout.blocks > 0, "kv.memory_mb",
              "one block of this model takes " + std::to_string(layout.pool_bytes()) +
                  " bytes: " + std::to_string(kv_memory_mb) + " MiB hold none");
  return layout;
}

RouterAddress parse_router(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  RouterAddress out;
  const char* end = text.data() + text.size();
  bool fits = colon != std::string::npos && colon > 0 && colon + 1 < text.size();
  if (fits) {
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, out.port);
    fits = error == std::errc() && stop == end && out.port != 0;
    out.host = text.substr(0, colon);
  }
  if (fits && out.host.front() == '[') {
    fits = out.host.size() > 2 && out.host.back() == ']';
    out.host = out.host.substr(1, out.host.size() - 2);
  } else {
    fits = fits && out.host.find(':') == std::string::npos;
  }
  check_field(fits, "routers", "'" + text + "' is not host:port");
  return out;
}

}  // namespace lynx
