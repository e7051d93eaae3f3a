// What a stream that went on elsewhere promises against one that nothing disturbed, where both are greedy and
// exact. What the lost worker decoded is prefilled anew. On the CPU the two kinds of step give the same bits,
// so every token is the same. A GPU rounds differently between them (kernels/backend.h): there the first
// token that differs is one that had a near rival, and what follows another token is another text. Not all of
// a test's streams may end so: some must be the same to their end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"

namespace lynx::testing {

// Asks for what goes_on_as() looks at.
inline constexpr int kRivals = 2;        // "logprobs"
inline constexpr double kNearTie = 0.5;  // nats

inline ::testing::AssertionResult goes_on_as(const StreamOutcome& undisturbed, const StreamOutcome& stream) {
  if (stream.tokens.size() != undisturbed.tokens.size() || stream.tokens.empty() ||
      undisturbed.margins.size() != undisturbed.tokens.size())
    return ::testing::AssertionFailure()
           << stream.tokens.size() << " tokens of " << undisturbed.tokens.size();
  const auto at =
      std::mismatch(stream.tokens.begin(), stream.tokens.end(), undisturbed.tokens.begin()).first -
      stream.tokens.begin();
  const auto first = static_cast<std::size_t>(at);
  if (first == stream.tokens.size()) return ::testing::AssertionSuccess();
  if (backend() != "cpu" && undisturbed.margins[first] <= kNearTie) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "token " << first << " is '" << stream.tokens[first] << "' and not '" << undisturbed.tokens[first]
         << "', which was ahead by " << undisturbed.margins[first] << " nats";
}

inline bool same_to_the_end(const StreamOutcome& undisturbed, const StreamOutcome& stream) {
  return !stream.tokens.empty() && stream.tokens == undisturbed.tokens;
}

}  // namespace lynx::testing
