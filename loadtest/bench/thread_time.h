#pragma once

#include <ctime>

namespace lynx {

// CPU seconds that the calling thread has used since it began; 0 where the system keeps no such clock.
inline double thread_cpu_seconds() {
  timespec time{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace lynx
