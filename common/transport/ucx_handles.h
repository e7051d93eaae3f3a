// One small owner for each UCX handle. Factories for start-up throw std::runtime_error; what happens on the
// data path gives a Result. Everything on the transport's one thread. Only this folder includes it.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/core/result.h"
#include "common/kv/kv_memory.h"
#include "common/transport/ucx_config.h"

namespace lynx {

Error ucx_error(ErrorCode code, const std::string& what, ucs_status_t status);
ucs_memory_type_t ucx_memory_type(KvMemory memory);

class UcxContext {
 public:
  UcxContext(const UcxConfig& config, KvMemory memory);  // ConfigError names a device that is not there
  static UcxContext of_every_device();                   // to see what there is
  ucp_context_h get() const { return context_.get(); }

 private:
  UcxContext() = default;
  // Throws std::runtime_error that begins with `otherwise`.
  void open(const ucp_config_t* settings, const std::string& otherwise);
  struct Free {
    void operator()(ucp_context* context) const { ucp_cleanup(context); }
  };
  std::unique_ptr<ucp_context, Free> context_;
};

class UcxWorker {
 public:
  explicit UcxWorker(const UcxContext& context);
  ucp_worker_h get() const { return worker_.get(); }
  std::string address() const { return address_; }
  std::size_t max_header() const { return max_header_; }  // bytes of an active message's header
  int event_fd() const { return event_fd_; }

  // handler(arg, ...) for active messages of this id, always called from ucp_worker_progress. Its data can be
  // given to ucp_am_recv_data_nbx.
  void on_message(unsigned id, ucp_am_recv_callback_t handler, void* arg);

 private:
  struct Free {
    void operator()(ucp_worker* worker) const { ucp_worker_destroy(worker); }
  };
  std::unique_ptr<ucp_worker, Free> worker_;
  std::string address_;
  std::size_t max_header_ = 0;
  int event_fd_ = -1;
};

// A close under way. Polled, because UCX calls nobody when it is through.
class UcxClose {
 public:
  explicit UcxClose(ucp_ep_h endpoint);  // by force: nothing is flushed, every request on it is cancelled
  ~UcxClose();
  UcxClose(const UcxClose&) = delete;
  UcxClose& operator=(const UcxClose&) = delete;
  bool finished();

 private:
  void* request_ = nullptr;
};

// A connection that this side opened. Once it has failed or close() was called it must carry nothing more:
// UCX crashes on the use of a closed endpoint.
class UcxEndpoint {
 public:
  static Result<std::unique_ptr<UcxEndpoint>> connect(const UcxWorker& worker, const std::string& address);
  ~UcxEndpoint() { close(); }
  UcxEndpoint(const UcxEndpoint&) = delete;
  UcxEndpoint& operator=(const UcxEndpoint&) = delete;

  bool usable() const { return endpoint_ != nullptr && !failure_; }
  ucp_ep_h get() const { return endpoint_; }  // only while usable
  const std::optional<ucs_status_t>& failure() const { return failure_; }

  void close();  // by force; returns at once
  bool closing() const { return close_ != nullptr; }
  bool closed() const { return close_ != nullptr && close_->finished(); }

 private:
  UcxEndpoint() = default;
  ucp_ep_h endpoint_ = nullptr;
  std::optional<ucs_status_t> failure_;
  std::unique_ptr<UcxClose> close_;
};

}  // namespace lynx
