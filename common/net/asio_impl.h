// What stands behind EventLoop. For the .cc files of this folder that talk to Asio; nobody else includes it.
#pragma once

#include <utility>  // Boost 1.81's Asio forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/net/event_loop.h"

namespace lynx {

namespace asio = boost::asio;

struct EventLoop::Impl {
  asio::io_context io{1};  // one thread runs it; post() still works from any
  std::vector<char> read_scratch =
      std::vector<char>(64 << 10);  // every stream reads into it: idle ones hold no memory
  std::function<void()> terminate;
  asio::signal_set signals{io};
  std::unordered_map<const void*, std::shared_ptr<void>> kept;  // see keep_with_loop
};

}  // namespace lynx
