// Threads are interrupted at their accesses to memory, too. The kernels are compiled with the calls that the
// thread sanitizer has before every access (-fsanitize=thread), and linked with these instead of its own.
#include <cstddef>
#include <cstdint>

#include "tests/kernels/cuda_on_cpu/emulator.h"

namespace {

// The nearest of the stack: a lane's own, which nobody else looks at.
constexpr std::uintptr_t kOwn = 16 * 1024;

void before_access(const void* at) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (reinterpret_cast<std::uintptr_t>(at) - here < kOwn) return;
  if (--lynx::on_cpu::accesses_left == 0) lynx::on_cpu::interrupt_access();
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the compiler's names
#define LYNX_ACCESS(name) \
  extern "C" void __tsan_##name(void* at) { before_access(at); }
LYNX_ACCESS(read1)
LYNX_ACCESS(read2)
LYNX_ACCESS(read4)
LYNX_ACCESS(read8)
LYNX_ACCESS(read16)
LYNX_ACCESS(write1)
LYNX_ACCESS(write2)
LYNX_ACCESS(write4)
LYNX_ACCESS(write8)
LYNX_ACCESS(write16)
extern "C" void __tsan_read_range(void* at, std::size_t) { before_access(at); }
extern "C" void __tsan_write_range(void* at, std::size_t) { before_access(at); }
extern "C" void __tsan_vptr_update(void*, void*) {}
extern "C" void __tsan_init() {}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
