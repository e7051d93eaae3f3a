// Which worker gets a request: pure functions over a snapshot, so that a test is a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lynx {

// One candidate. Load is what the router itself has reserved there and not yet released: it counts from the
// moment of selection, so a burst spreads before any worker has answered.
struct WorkerLoad {
  std::uint64_t worker = 0;
  std::uint64_t requests = 0;
  std::uint64_t request_slots = 1;  // it can serve this many at once
  std::uint64_t tokens = 0;
  std::uint64_t token_slots = 1;  // tokens that its KV pool holds
  double new_experts = 0;         // that this request is expected to add to a step there; 0 for all: unknown
};

// candidates: not empty, ascending by worker. last: the worker picked before (0 = none). Returns an index.
using RoutingPolicy = std::size_t (*)(std::span<const WorkerLoad> candidates, std::uint64_t last);

// In turn.
std::size_t round_robin(std::span<const WorkerLoad> candidates, std::uint64_t last);
// Lowest share of the scarcer resource, request slots or KV tokens; equals take turns.
std::size_t least_loaded(std::span<const WorkerLoad> candidates, std::uint64_t last);

// Fewest new experts among the workers that the request would leave within 1.5 times the lowest load, the
// lowest always among them; where nothing is known of its experts, least_loaded.
std::size_t expert_affinity(std::span<const WorkerLoad> candidates, std::uint64_t last);

// The share of the scarcer resource that is taken.
double load_of(const WorkerLoad& worker);

// nullptr for a name that is none of them.
RoutingPolicy find_routing_policy(std::string_view name);

}  // namespace lynx
