#include "services/router/expert_profile.h"

#include <array>
#include <cmath>
#include <utility>

#include "common/core/check.h"

namespace lynx {
namespace {

constexpr double kWhole = 255;
constexpr double kPerNat = 512;              // units of ExpertLoad::used_
constexpr std::uint32_t kCertain = 8 * 512;  // an expert that every token uses: e^-8 stands for never unused
constexpr std::size_t kShortestPrefix = 16;  // tokens
constexpr std::size_t kEntryOverhead = 160;  // bytes of the containers, roughly

std::uint32_t use_of(std::uint8_t share) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::size_t i = 0; i + 1 < out.size(); ++i)
      out[i] =
          static_cast<std::uint32_t>(std::lround(-std::log1p(-static_cast<double>(i) / kWhole) * kPerNat));
    out.back() = kCertain;
    return out;
  }();
  return table[share];
}

// e^-use: exp itself, over all layers and workers, would be felt on the loop.
float chance_unused(std::uint32_t use) {
  static const std::vector<float> table = [] {
    std::vector<float> out(kCertain);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(std::exp(-static_cast<double>(i) / kPerNat));
    return out;
  }();
  return use < kCertain ? table[use] : 0;
}

std::uint64_t mix(std::uint64_t hash, TokenId token) {
  hash = (hash ^ token) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29U);
}

SharedProfile blend(const ExpertProfile& known, const ExpertProfile& latest) {
  auto out = std::make_shared<ExpertProfile>(known.size());
  for (std::size_t i = 0; i < known.size(); ++i)
    (*out)[i] = static_cast<std::uint8_t>((3U * known[i] + latest[i] + 2U) / 4U);
  return out;
}

}  // namespace

bool ExpertLoad::fits(const ExpertProfile& profile) const {
  return profiles_ == 0 || profile.size() == used_.size();
}

void ExpertLoad::add(const ExpertProfile& profile) {
  LYNX_CHECK(fits(profile), "a profile belongs to the model of the others");
  if (profiles_++ == 0) used_.assign(profile.size(), 0);
  for (std::size_t i = 0; i < profile.size(); ++i) used_[i] += use_of(profile[i]);
}

void ExpertLoad::remove(const ExpertProfile& profile) {
  LYNX_CHECK(profiles_ > 0 && fits(profile), "only what was added is removed");
  --profiles_;
  for (std::size_t i = 0; i < profile.size(); ++i) used_[i] -= use_of(profile[i]);
}

double ExpertLoad::new_experts(const ExpertProfile& profile) const {
  const bool shared = profiles_ > 0 && fits(profile);
  double sum = 0;
  for (std::size_t i = 0; i < profile.size(); ++i)
    sum += profile[i] * (shared ? chance_unused(used_[i]) : 1.0F);
  return sum / kWhole;
}

std::vector<std::uint64_t> ProfileMemory::keys_of(std::span<const TokenId> prompt) {
  std::vector<std::uint64_t> keys;
  std::uint64_t hash = 0;
  std::size_t next = kShortestPrefix;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    hash = mix(hash, prompt[i]);
    if (i + 1 != next) continue;
    keys.push_back(hash);
    next *= 2;
  }
  return keys;
}

void ProfileMemory::learn(std::span<const std::uint64_t> keys, const SharedProfile& profile) {
  for (const std::uint64_t key : keys) {
    const auto at = entries_.find(key);
    const bool known = at != entries_.end() && at->second.profile->size() == profile->size();
    put(key, known ? blend(*at->second.profile, *profile) : profile);
  }
}

void ProfileMemory::put(std::uint64_t key, SharedProfile profile) {
  const auto drop = [&](std::uint64_t old) {
    const auto at = entries_.find(old);
    bytes_ -= at->second.profile->size() + kEntryOverhead;
    order_.erase(at->second.age);
    entries_.erase(at);
  };
  if (entries_.contains(key)) drop(key);
  bytes_ += profile->size() + kEntryOverhead;
  order_.push_front(key);
  entries_[key] = {std::move(profile), order_.begin()};
  while (bytes_ > max_bytes_) drop(order_.back());
}

SharedProfile ProfileMemory::predict(std::span<const std::uint64_t> keys) const {
  for (std::size_t i = keys.size(); i-- > 0;)
    if (const auto at = entries_.find(keys[i]); at != entries_.end()) return at->second.profile;
  return nullptr;
}

}  // namespace lynx
