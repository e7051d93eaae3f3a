// A dispatcher with a prefill worker and two decode workers, one of which receives no KV.
#pragma once

#include <map>

#include "tests/services/router/dispatch_bench.h"

namespace lynx::testing {

class PutAsideDispatch : public ::testing::Test {
 protected:
  PutAsideDispatch() {
    bench_.add_pair();
    bench_.add_worker(WorkerRole::kDecode, "bad");
  }
  // Plays the workers until nothing more is sent: transfers to `bad` fail, all others come through and end.
  void play() {
    while (!bench_.sender.frames.empty()) {
      const SentFrame frame = bench_.sender.frames.front();
      bench_.sender.frames.erase(bench_.sender.frames.begin());
      if (frame.kind == Sent::kReserve) {
        decode_of_[frame.request] = frame.to;
        bench_.reserved(frame);
      }
      if (frame.kind == Sent::kPrefill) end(frame);
    }
  }
  void end(const SentFrame& prefill) {
    const bool fails = decode_of_[prefill.request] == bench_.workers["bad"] && !healed_;
    ++(fails ? failed_ : served_);
    if (fails) return bench_.ended(prefill, ErrorCode::kUnavailable, true);
    bench_.first_token(prefill, 50, 0);
    bench_.handed_over(prefill);
    SentFrame reserve = prefill;
    reserve.to = decode_of_[prefill.request];
    bench_.token(reserve, 51, 1, TokenFinish::kLength);
  }
  void pass(std::chrono::milliseconds by) {
    for (; by.count() > 0; by -= std::chrono::milliseconds(500)) {
      for (const auto& [name, id] : bench_.workers) bench_.heartbeat(id);
      bench_.advance(std::chrono::milliseconds(500));
    }
  }

  DispatchBench bench_;
  std::map<std::uint64_t, WorkerId> decode_of_;
  int failed_ = 0;
  int served_ = 0;
  bool healed_ = false;
};

}  // namespace lynx::testing
