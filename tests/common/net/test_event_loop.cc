#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/common/net/loop_thread.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

TEST(EventLoop, EndsWhenNothingIsLeftAndRunsAgain) {
  EventLoop loop;
  loop.run();
  int ran = 0;
  loop.post([&] { ++ran; });
  loop.run();
  loop.post([&] { ++ran; });
  loop.run();
  EXPECT_EQ(ran, 2);
}

TEST(EventLoop, TimersFireInOrderOnceAndStopWhenDropped) {
  EventLoop loop;
  std::string order;
  const auto late = loop.after(milliseconds(10), [&] { order += "late "; });
  const auto soon = loop.after(milliseconds(1), [&] { order += "soon "; });
  auto never = loop.after(milliseconds(5), [&] { order += "never "; });
  never.reset();
  loop.run();
  EXPECT_EQ(order, "soon late ");
}

TEST(EventLoop, ATimerMayDropItselfWhileItFires) {
  EventLoop loop;
  int fired = 0;
  std::unique_ptr<Timer> periodic;
  periodic = loop.every(milliseconds(1), [&] {
    if (++fired == 3) periodic.reset();
  });
  std::unique_ptr<Timer> once;
  once = loop.after(milliseconds(1), [&] { once.reset(); });
  loop.run();
  EXPECT_EQ(fired, 3);
}

TEST(EventLoop, ATimerDroppedAfterItIsDueDoesNotFire) {
  EventLoop loop;
  bool fired = false;
  auto due = loop.after(milliseconds(0), [&] { fired = true; });
  loop.post([&] {
    std::this_thread::sleep_for(milliseconds(2));
    due.reset();
  });
  loop.run();
  EXPECT_FALSE(fired);
}

TEST(EventLoop, WatchesAnFdForAsLongAsItIsReadable) {
  EventLoop loop;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  std::string got;
  std::unique_ptr<FdWatch> watch;
  watch = loop.watch_readable(ends[0], [&] {
    char c = 0;
    ASSERT_EQ(::read(ends[0], &c, 1), 1);
    got += c;
    if (got.size() == 3) watch.reset();
  });
  loop.run();
  EXPECT_EQ(got, "abc") << "one byte per call: level-triggered";
  EXPECT_EQ(::write(ends[1], "x", 1), 1) << "the fd is still its owner's";
  char c = 0;
  EXPECT_EQ(::read(ends[0], &c, 1), 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(EventLoop, PostAndStopFromOtherThreads) {
  LoopThread thread;
  std::atomic<int> sum = 0;
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) thread.loop().post([&] { ++sum; });
    });
  }
  for (auto& poster : posters) poster.join();
  thread.on_loop([] {});
  EXPECT_EQ(sum, 4000);
}

TEST(EventLoop, TerminationSignalsRunTheirHandlerEachTime) {
  EventLoop loop;
  int signals = 0;
  loop.on_terminate([&] { ++signals; });
  std::raise(SIGTERM);
  EXPECT_TRUE(run_until(loop, [&] { return signals == 1; }));
  std::raise(SIGINT);
  EXPECT_TRUE(run_until(loop, [&] { return signals == 2; }));
}

}  // namespace
}  // namespace lynx
