// Clusters, by the emulator.
#pragma once

#include "tests/kernels/cuda_on_cpu/emulator.h"

namespace cooperative_groups {

struct cluster_group {
  unsigned num_blocks() const { return lynx::on_cpu::cluster_blocks(); }
  unsigned block_rank() const { return lynx::on_cpu::cluster_rank(); }
  template <typename T>
  T* map_shared_rank(T* mine, unsigned block) const {
    return static_cast<T*>(lynx::on_cpu::in_block(mine, block));
  }
  void barrier_arrive() const { lynx::on_cpu::cluster_arrive(); }
  void barrier_wait() const { lynx::on_cpu::cluster_wait(); }
  void sync() const {
    barrier_arrive();
    barrier_wait();
  }
};

inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups
