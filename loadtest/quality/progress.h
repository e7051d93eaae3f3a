// Says on stderr how far a run is and how long it will still take.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace lynx {

class Progress {
 public:
  Progress(std::size_t total, bool quiet)
      : total_(total), quiet_(quiet), start_(std::chrono::steady_clock::now()) {}
  void begin(const std::string& what);  // the next unit of work
  void done();

 private:
  const std::size_t total_;
  const bool quiet_;
  std::size_t begun_ = 0;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace lynx
