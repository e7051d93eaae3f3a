#include "loadtest/quality/progress.h"

#include <cstdio>

namespace lynx {

void Progress::begin(const std::string& what) {
  ++begun_;
  if (quiet_) return;
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double left = begun_ < 2 ? 0
                                 : passed / static_cast<double>(begun_ - 1) *
                                       (static_cast<double>(total_) - static_cast<double>(begun_ - 1));
  std::fprintf(stderr, "[%4zu/%zu] %5.0f s, about %5.0f s left  %s\n", begun_, total_, passed, left,
               what.c_str());
}

void Progress::done() {
  if (!quiet_)
    std::fprintf(stderr, "done in %.0f s\n",
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
}

}  // namespace lynx
