// Stacks for fibers.
#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace lynx::on_cpu {

// Stacks are kept from launch to launch: a cluster needs some thousand of them.
class Stacks {
 public:
  boost::context::stack_context allocate() {
    if (free_.empty()) {
      all_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBytes));
      free_.push_back(all_.back().get());
    }
    boost::context::stack_context stack;
    stack.size = kBytes;
    stack.sp = free_.back() + kBytes;  // it grows downwards
    free_.pop_back();
    return stack;
  }
  void deallocate(const boost::context::stack_context& stack) {
    free_.push_back(static_cast<std::byte*>(stack.sp) - kBytes);
  }

 private:
  static constexpr std::size_t kBytes = 64 * 1024;
  std::vector<std::unique_ptr<std::byte[]>> all_;
  std::vector<std::byte*> free_;
};

// What Boost.Context copies and keeps.
struct StackAllocator {
  boost::context::stack_context allocate() { return stacks().allocate(); }
  void deallocate(boost::context::stack_context& stack) { stacks().deallocate(stack); }
  static Stacks& stacks() {
    static Stacks all;
    return all;
  }
};

}  // namespace lynx::on_cpu
