#include "kernels/cpu/micro/micro_kernels.h"

#include <initializer_list>

#include "kernels/cpu/micro/tables.h"

namespace lynx {

const MicroKernels* micro_kernels(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return &kGenericKernels;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kAvx2Kernels : nullptr;
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx2") &&
                     __builtin_cpu_supports("fma")
                 ? &kAvx512Kernels
                 : nullptr;
#else
    case Isa::kAvx2:
    case Isa::kAvx512:
      return nullptr;
#endif
  }
  return nullptr;
}

const MicroKernels& best_micro_kernels() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (const MicroKernels* found = micro_kernels(isa)) return *found;
  }
  return kGenericKernels;
}

}  // namespace lynx
