// The arithmetic of the control link's proof. Internal to common/net.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace lynx {

inline constexpr std::size_t kNonceBytes = 16;
using Nonce = std::array<unsigned char, kNonceBytes>;
using Mac = std::array<unsigned char, 32>;

// Throws std::runtime_error when the system has no randomness.
Nonce random_nonce();

// HMAC-SHA256(secret, "lynx" | service | peer_nonce | own_nonce), from the side of the one who proves. Bound
// to its direction: neither the verifier's own proof nor one made for another connection fits.
Mac prove(std::string_view secret, std::string_view service, const Nonce& peer_nonce, const Nonce& own_nonce);

// In constant time.
bool equal(const Mac& expected, std::string_view given);

}  // namespace lynx
