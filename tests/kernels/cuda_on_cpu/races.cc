#include "tests/kernels/cuda_on_cpu/races.h"

#include <dlfcn.h>

#include <algorithm>
#include <sstream>

namespace lynx::on_cpu {
namespace {

constexpr std::size_t kWordBytes = 4;

// Accesses to a word that later ones may race with. Kept from cluster to cluster, so that only the words that
// one uses cost time: what is of an earlier cluster does not count.
struct Word {
  std::uint32_t cluster = 0;
  std::vector<Access> accesses;
};
std::vector<Word> words;
std::uint32_t clusters = 0;

std::vector<Access>& word_at(std::size_t index) {
  if (index >= words.size()) words.resize(std::max(index + 1, 2 * words.size()));
  Word& word = words[index];
  if (word.cluster != clusters) word.accesses.clear();
  word.cluster = clusters;
  return word.accesses;
}

void join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

void set(Clock& clock, unsigned actor, std::uint32_t time) {
  if (actor >= clock.size()) clock.resize(actor + 1);
  clock[actor] = std::max(clock[actor], time);
}

// Atomics do not race with one another, nor do reads.
bool conflict(AccessKind a, AccessKind b) {
  return a == AccessKind::kWrite || b == AccessKind::kWrite || a != b;
}

}  // namespace

Races::Races(unsigned blocks, unsigned warps_of_block)
    : warps_of_block_(warps_of_block), known_(std::size_t{blocks} * warps_of_block) {
  ++clusters;
}

void Races::release(Agent& by, Clock& to) const {
  join(to, known_[by.warp]);
  set(to, by.warp, by.time++);
}

void Races::acquire(const Agent& by, const Clock& from) { join(known_[by.warp], from); }

bool Races::knows(const Agent& who, const Access& of) const {
  const Clock& known = known_[who.warp];
  return of.actor == who.warp || (of.actor < known.size() && known[of.actor] >= of.time);
}

const Access* Races::add(const Agent& by, std::vector<Access>& word, Access now) const {
  auto kept = word.begin();
  for (const Access& was : word) {
    const bool known = knows(by, was);
    if (!known && (was.bytes & now.bytes) != 0 && conflict(was.kind, now.kind)) return &was;
    // What would race with it would race with this one.
    const bool covered =
        known && (was.bytes & ~now.bytes) == 0 && (now.kind == AccessKind::kWrite || now.kind == was.kind);
    if (!covered)
      *kept++ = was;
    else if (was.actor == now.actor)
      now.time = std::max(now.time, was.time);  // by another lane
  }
  word.erase(kept, word.end());
  word.push_back(now);
  return nullptr;
}

std::string Races::add(const Agent& by, std::size_t at, std::size_t bytes, Access now) const {
  for (const std::size_t end = at + bytes; at < end; at = (at / kWordBytes + 1) * kWordBytes) {
    const std::size_t first = at % kWordBytes;
    const std::size_t last = std::min(kWordBytes, first + end - at);
    now.bytes = static_cast<std::uint8_t>((1U << last) - (1U << first));
    if (const Access* const other = add(by, word_at(at / kWordBytes), now))
      return describe(*other) + ", " + describe(now) + ", and neither before the other";
  }
  return {};
}

std::string Races::access(const Agent& by, std::size_t at, std::size_t bytes, AccessKind kind,
                          const void* code) {
  const auto warp = static_cast<std::uint16_t>(by.warp);
  return add(by, at, bytes, {.code = code, .time = by.time, .actor = warp, .warp = warp, .kind = kind});
}

Races::Inbox& Races::inbox_at(const void* place) {
  const auto next = static_cast<std::uint16_t>(known_.size() + inboxes_.size());
  return inboxes_.try_emplace(place, Inbox{.actor = next, .known = {}}).first->second;
}

std::string Races::mail(Agent& by, std::size_t at, std::size_t bytes, const void* inbox, const void* code) {
  Inbox& to = inbox_at(inbox);
  const std::uint32_t time = to.actor < to.known.size() ? to.known[to.actor] + 1 : 1;
  set(to.known, to.actor, time);
  release(by, to.known);
  return add(by, at, bytes,
             {.code = code,
              .time = time,
              .actor = to.actor,
              .warp = static_cast<std::uint16_t>(by.warp),
              .kind = AccessKind::kWrite});
}

void Races::heard(const Agent& by, const void* inbox) { acquire(by, inbox_at(inbox).known); }

std::string Races::describe(const Access& access) const {
  std::ostringstream text;
  text << "warp " << access.warp % warps_of_block_ << " of block " << access.warp / warps_of_block_;
  switch (access.kind) {
    case AccessKind::kRead:
      text << " reads";
      break;
    case AccessKind::kWrite:
      text << (access.actor == access.warp ? " writes" : " sends mail");
      break;
    case AccessKind::kAtomic:
      text << " has an atomic";
      break;
  }
  Dl_info program;
  if (dladdr(access.code, &program) != 0)
    text << " (before " << program.dli_fname << "+0x" << std::hex
         << static_cast<const std::byte*>(access.code) - static_cast<const std::byte*>(program.dli_fbase)
         << ')';
  return text.str();
}

}  // namespace lynx::on_cpu
