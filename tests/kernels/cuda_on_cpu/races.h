// Finds races for shared memory: two accesses by different warps of a cluster, one of them a write, neither
// of which happens before the other. Whether it finds one depends on what the warps do, not on the order in
// which the schedule has them do it. By vector clocks, kept per access as far as later ones do not stand for
// it (Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/cuda_on_cpu/emulator.h"

namespace lynx::on_cpu {

// Up to which time of each warp, and then of each inbox, it is known what they did.
using Clock = std::vector<std::uint32_t>;

// A lane, which knows what its warp knows, but has a time of its own: others of the warp may have yet to come
// to a barrier that it is past. Time goes on whenever others may learn of what the lane did until then.
struct Agent {
  unsigned warp = 0;  // of the cluster
  std::uint32_t time = 1;
};

struct Access {
  const void* code = nullptr;  // where it comes from
  std::uint32_t time = 0;
  std::uint16_t actor = 0;  // the warp; of mail the inbox
  std::uint16_t warp = 0;
  AccessKind kind = AccessKind::kRead;
  std::uint8_t bytes = 0;  // of its word, a bit each
};

// One a cluster that runs, one at a time in a process.
class Races {
 public:
  Races(unsigned blocks, unsigned warps_of_block);

  // What the lane's warp has done and knows so far is known to whoever knows `to`.
  void release(Agent& by, Clock& to) const;
  void acquire(const Agent& by, const Clock& from);

  // Of so many bytes from `at` on, counted from the start of the cluster's shared memory. Returns what is
  // wrong: a race with an earlier access, in words; or nothing.
  std::string access(const Agent& by, std::size_t at, std::size_t bytes, AccessKind kind, const void* code);
  // Mail is written by the inbox, whenever it likes: only those know of it who have awaited the inbox.
  std::string mail(Agent& by, std::size_t at, std::size_t bytes, const void* inbox, const void* code);
  void heard(const Agent& by, const void* inbox);

 private:
  struct Inbox {
    std::uint16_t actor = 0;
    Clock known;
  };

  std::string add(const Agent& by, std::size_t at, std::size_t bytes, Access now) const;
  const Access* add(const Agent& by, std::vector<Access>& word, Access now) const;
  bool knows(const Agent& who, const Access& of) const;
  Inbox& inbox_at(const void* place);

  std::string describe(const Access& access) const;

  unsigned warps_of_block_;
  std::vector<Clock> known_;  // [warp]
  std::map<const void*, Inbox> inboxes_;
};

}  // namespace lynx::on_cpu
