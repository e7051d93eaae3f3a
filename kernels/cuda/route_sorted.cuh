// One row of router logits, each lane's experts in rank order: to take the row's first expert, only each
// lane's first has to be looked at. For few experts a lane, which are quickly sorted.
#pragma once

#include "kernels/cuda/route_row.cuh"

namespace lynx::cuda {

// What not every model or row needs, by itself: the way of the others is then shorter to fetch.
template <int V>
struct LoadedKeys {
  RowKeys<V> keys;
  bool votes;
};
template <int V>
__device__ __noinline__ LoadedKeys<V> load_ragged(const float* row, std::uint32_t experts,
                                                  std::uint32_t lane) {
  LoadedKeys<V> loaded;
  loaded.votes = loaded.keys.load(row, experts, lane);
  return loaded;
}
template <int V>
__device__ __noinline__ std::uint64_t sum_of_all_masses(RowKeys<V> keys, RouterKind kind, float max) {
  return keys.sum_of_masses(kind, max);
}

// Like RowKeys, but key[v] is not expert l V + v.
template <int V>
struct SortedKeys {
  static_assert(V <= 4, "the sort's length is the square of V");

  std::uint32_t key[V];
  std::uint32_t order;  // four bits each: of key[v], which of the lane's experts

  __device__ std::uint32_t expert_of(int v, std::uint32_t lane) const {
    return lane * V + (order >> (v * kOrderBits) & (V - 1));
  }
  // Bit v: of key[v]'s expert in a set.
  __device__ std::uint32_t bits_of(const std::uint32_t* words, std::uint32_t lane) const {
    const std::uint32_t set = RowKeys<V>::bits_of(words, lane);
    std::uint32_t bits = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) bits |= (set >> (order >> (v * kOrderBits) & (V - 1)) & 1) << v;
    return bits;
  }
  __device__ std::uint32_t at(int v) const { return RowKeys<V>::pick(key, v); }

  __device__ bool load(const float* row, std::uint32_t experts, std::uint32_t lane) {
    RowKeys<V> keys;
    const bool full =
        experts == V * kWarp && reinterpret_cast<std::uintptr_t>(row) % (V * sizeof(float)) == 0;
    bool votes;
    if (full) [[likely]] {
      votes = keys.load_full(row, lane);
    } else {
      const LoadedKeys<V> loaded = load_ragged<V>(row, experts, lane);
      keys = loaded.keys;
      votes = loaded.votes;
    }
    std::uint32_t which[V];
#pragma unroll
    for (int v = 0; v < V; ++v) key[v] = keys.key[v], which[v] = static_cast<std::uint32_t>(v);
      // Of neighbours, so that equal keys stay in the order of the experts.
#pragma unroll
    for (int round = 0; round < V; ++round)
#pragma unroll
      for (int v = round % 2; v + 1 < V; v += 2) {
        const bool swap = key[v] < key[v + 1];
        const std::uint32_t other = which[v];
        which[v] = swap ? which[v + 1] : which[v];
        which[v + 1] = swap ? other : which[v + 1];
        const std::uint32_t least = min(key[v], key[v + 1]);
        key[v] = max(key[v], key[v + 1]);
        key[v + 1] = least;
      }
    order = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) order |= which[v] << (v * kOrderBits);
    return votes;
  }

  __device__ std::uint32_t best() const { return key[0]; }  // of the lane's

  // Removes the first expert in rank order: true for the lane that held it, which gets it. All get its key.
  __device__ bool pop(std::uint32_t lane, std::uint32_t& best_key, std::uint32_t& expert) {
    best_key = __reduce_max_sync(kAllLanes, key[0]);
    const std::uint32_t lanes = __ballot_sync(kAllLanes, key[0] == best_key);
    // Of equal keys the first expert: so the first lane.
    const bool mine = key[0] == best_key && (lanes & lanes_below(lane)) == 0;
    expert = expert_of(0, lane);
    remove_if(mine, 0);
    return mine;
  }

  __device__ void keep_only(const std::uint32_t* active_words, std::uint32_t lane) {
    const std::uint32_t bits = bits_of(active_words, lane);
#pragma unroll
    for (int v = V - 1; v >= 0; --v) remove_if((bits >> v & 1) == 0, v);
  }

  __device__ std::uint64_t sum_of_masses(RouterKind kind, float max) const {
    return sum_of_all_masses<V>(as_keys(), kind, max);
  }
  __device__ std::uint32_t largest_mass(RouterKind kind, float row_max) const {
    return as_keys().largest_mass(kind, row_max);
  }

 private:
  static constexpr std::uint32_t kOrderBits = 4;

  __device__ void remove_if(bool yes, int v) {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (i >= v) key[i] = yes ? (i + 1 < V ? key[i + 1] : 0) : key[i];
    const std::uint32_t before = (1U << (v * kOrderBits)) - 1;
    order = yes ? (order & before) | (order >> kOrderBits & ~before) : order;
  }
  __device__ RowKeys<V> as_keys() const {  // for what no order matters to
    RowKeys<V> keys;
#pragma unroll
    for (int v = 0; v < V; ++v) keys.key[v] = key[v];
    return keys;
  }
};

// Of a row of up to 32 V experts.
template <int V, bool kFew = V <= 4>
struct KeysOf {
  using Type = RowKeys<V>;
};
template <int V>
struct KeysOf<V, true> {
  using Type = SortedKeys<V>;
};

}  // namespace lynx::cuda
