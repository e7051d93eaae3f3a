// Bytes that a peer reads out of a device's memory by itself are lent to it until the push's deadline, and no
// longer: a peer that was stopped has the address and keeps it, and would read whatever lies there by then.
// So the sender takes such bytes back only when the peer has answered or the deadline has passed, and the
// receiver counts as landed only what it had read by then. Both look at the clock of the one host that they
// share; across hosts there is no such reading.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "common/core/clock.h"
#include "common/core/result.h"
#include "common/transport/kv_wire.h"

namespace lynx::kv_loan {

std::uint64_t this_host();                     // of this boot of this machine
std::uint64_t host_of(std::istream& boot_id);  // by its first line; without one, no other call's host

void lend(kv_wire::Push& push, Clock::time_point deadline, std::uint64_t host);
// Not ok: what was read from now on, or until now, may be somebody else's.
Status still_lent(const kv_wire::Push& push, Clock::time_point now, std::uint64_t host);

}  // namespace lynx::kv_loan
