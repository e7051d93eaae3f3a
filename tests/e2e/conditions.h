// What an interruption of streams (api_client.h) may wait for: not so many milliseconds, in which a fast
// machine is done and a slow one has not begun, but that what it is to hit is there. The cluster outlives
// each.
#pragma once

#include <functional>

#include "tests/e2e/cluster.h"

namespace lynx::testing {

// Blocks of its /debug/kv in that state.
std::function<bool()> has_blocks(const Worker& worker, const char* state);

// It has made so many steps since now.
std::function<bool()> has_stepped(const Worker& worker, int steps);

// The router has given it requests that have not ended. Can be asked of a worker that is stopped, too.
std::function<bool()> has_requests(Cluster& cluster, const Worker& worker);

}  // namespace lynx::testing
