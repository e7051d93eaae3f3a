// What the end of a KV transfer says of the two workers: see WorkerStanding. Loop thread.
#pragma once

#include "services/router/worker_messages.h"
#include "services/router/worker_table.h"

namespace lynx {

struct FlowContext;

// Whether a fault speaks against the two workers. A deadline that passes before the first token is rather
// that of a request which waited too long to be computed.
bool is_transfer_fault(const WorkerFault& fault, bool first_token_seen);

void count_transferred(FlowContext& context, WorkerId prefill, WorkerId decode);
void count_failed_transfer(FlowContext& context, WorkerId prefill, WorkerId decode, const Error& fault);

}  // namespace lynx
