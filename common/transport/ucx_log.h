// UCX writes its messages to stdout unless told otherwise; here they become lines of our own log.
#pragma once

namespace lynx {

// Any number of times; the first one counts, for the whole process (UCX has one list of handlers).
void forward_ucx_log();

}  // namespace lynx
