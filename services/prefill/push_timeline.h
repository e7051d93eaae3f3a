// When the pushes of one request ran, against when its layers were computed: how much of the transfer hid
// behind compute. Pure; times are handed in.
#pragma once

#include <cstddef>
#include <vector>

#include "common/core/clock.h"

namespace lynx {

class PushTimeline {
 public:
  std::size_t posted(Clock::time_point at);  // returns the push's number
  void finished(std::size_t push, Clock::time_point at);
  void computed(Clock::time_point at) { computed_ = at; }  // the step with the prompt's end is done

  double transfer_seconds() const;  // first posted to last finished
  double exposed_seconds() const;   // the part of it after the last layer
  // Share of the time in which at least one push was under way that lies before the end of compute; 1 without
  // pushes.
  double overlap_ratio() const;

 private:
  struct Interval {
    Clock::time_point begin;
    Clock::time_point end;
  };
  Clock::time_point last_end() const;

  std::vector<Interval> pushes_;  // by time of posting
  Clock::time_point computed_;
};

}  // namespace lynx
