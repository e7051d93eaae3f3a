// Threads are interrupted at their accesses to memory, too, which are looked at for races. The kernels are
// compiled with the calls that the thread sanitizer has before every access (-fsanitize=thread), and linked
// with these instead of its own.
#include <cstddef>
#include <cstdint>

#include "tests/kernels/cuda_on_cpu/emulator.h"

namespace {

using lynx::on_cpu::AccessKind;

void before_access(const void* at, std::size_t bytes, AccessKind kind, const void* code) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (reinterpret_cast<std::uintptr_t>(at) - here < lynx::on_cpu::kOwnStack) return;
  if (lynx::on_cpu::cluster_memory.has(at) || lynx::on_cpu::shared_variables.has(at))
    lynx::on_cpu::note_access(at, bytes, kind, code);
  if (--lynx::on_cpu::accesses_left == 0) lynx::on_cpu::interrupt_access();
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the compiler's names
#define LYNX_ACCESS(name, bytes, kind)                                       \
  extern "C" void __tsan_##name(void* at) {                                  \
    before_access(at, bytes, AccessKind::kind, __builtin_return_address(0)); \
  }
#define LYNX_ACCESSES(bytes)                        \
  LYNX_ACCESS(read##bytes, bytes, kRead)            \
  LYNX_ACCESS(write##bytes, bytes, kWrite)          \
  LYNX_ACCESS(volatile_read##bytes, bytes, kAtomic) \
  LYNX_ACCESS(volatile_write##bytes, bytes, kAtomic)
LYNX_ACCESSES(1)
LYNX_ACCESSES(2)
LYNX_ACCESSES(4)
LYNX_ACCESSES(8)
LYNX_ACCESSES(16)
extern "C" void __tsan_read_range(void* at, std::size_t bytes) {
  before_access(at, bytes, AccessKind::kRead, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void* at, std::size_t bytes) {
  before_access(at, bytes, AccessKind::kWrite, __builtin_return_address(0));
}
extern "C" void __tsan_vptr_update(void*, void*) {}
extern "C" void __tsan_init() {}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
