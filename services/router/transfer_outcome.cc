#include "services/router/transfer_outcome.h"

#include "common/core/log.h"
#include "services/router/request_flow.h"

namespace lynx {

bool is_transfer_fault(const WorkerFault& fault, bool first_token_seen) {
  if (!fault.transfer) return false;
  switch (fault.error.code) {
    case ErrorCode::kDeadlineExceeded:
      return first_token_seen;
    case ErrorCode::kUnavailable:
    case ErrorCode::kIncompatible:
    case ErrorCode::kPermission:
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      return true;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:  // the lease has expired or was given back
    case ErrorCode::kBusy:
    case ErrorCode::kCancelled:
      return false;
  }
  return false;
}

void count_transferred(FlowContext& context, WorkerId prefill, WorkerId decode) {
  for (const WorkerId id : context.workers.transferred(prefill, decode))
    log::info("worker '{}' is no longer put aside: a KV transfer came through",
              context.workers.find(id)->info.name);
}

void count_failed_transfer(FlowContext& context, WorkerId prefill, WorkerId decode, const Error& fault) {
  const auto aside = context.workers.transfer_failed(prefill, decode, context.clock.now());
  if (!aside) return;
  const WorkerInfo& info = context.workers.find(aside->worker)->info;
  context.metrics.put_aside(info.name);
  log::warn("{} worker '{}' is put aside for {} s: its KV transfers keep failing, the last with: {}",
            to_string(info.role), info.name, seconds(aside->pause), fault.message);
}

}  // namespace lynx
