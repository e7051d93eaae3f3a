// Stacks for fibers.
#pragma once

#include <boost/context/preallocated.hpp>
#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "tests/kernels/cuda_on_cpu/emulator.h"

namespace lynx::on_cpu {

// Some for each thread of a cluster, kept from launch to launch.
class Stacks {
 public:
  // The i-th; it is free when no fiber runs on it any more.
  boost::context::preallocated at(std::size_t i) {
    while (all_.size() <= i) all_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBytes + kOwnStack));
    boost::context::stack_context stack;
    stack.size = kBytes;
    stack.sp = all_[i].get() + kBytes;  // it grows downwards
    return {stack.sp, stack.size, stack};
  }

  // For Boost.Context, whose fibers give their stack to somebody when they have ended.
  struct Keep {
    void deallocate(boost::context::stack_context&) {}
  };

 private:
  static constexpr std::size_t kBytes = 64 * 1024;
  std::vector<std::unique_ptr<std::byte[]>> all_;
};

}  // namespace lynx::on_cpu
