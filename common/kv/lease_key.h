// The secret part of a lease ticket: SipHash-2-4 of the lease id under the ledger's seed (Aumasson and
// Bernstein, 2012). Someone who has seen any number of tickets still cannot compute the key of another.
#pragma once

#include <cstdint>

namespace lynx {

std::uint64_t lease_key(std::uint64_t seed, std::uint64_t lease_id);

// SipHash-2-4 of one 8-byte little-endian word; key = {k0, k1}.
std::uint64_t siphash_word(std::uint64_t k0, std::uint64_t k1, std::uint64_t word);

}  // namespace lynx
