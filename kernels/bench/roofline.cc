#include "kernels/bench/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <vector>
#ifdef LYNX_ONEDNN
#include <dnnl.hpp>

// All that is used of <omp.h>: GCC has that header, clang-tidy has none that it could read.
extern "C" void omp_set_num_threads(int threads);
#endif

#include "kernels/cpu/aligned.h"
#include "kernels/cpu/thread_pool.h"

namespace lynx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The best time of one call within about `budget` seconds, at least three calls.
template <typename Call>
double best_seconds(double budget, const Call& call) {
  double best = 1e9;
  const auto begin = Clock::now();
  for (int i = 0; i < 3 || seconds_since(begin) < budget; ++i) {
    const auto start = Clock::now();
    call();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// Sums 64-bit words in eight vectors of eight: wide enough that loads, not additions, set the pace.
std::uint64_t sum_words(const std::byte* data, std::size_t bytes) {
  typedef std::uint64_t Vector __attribute__((vector_size(64), aligned(64), may_alias));
  const auto* words = reinterpret_cast<const Vector*>(data);
  const std::size_t count = bytes / sizeof(Vector);
  Vector a = {};
  Vector b = {};
  Vector c = {};
  Vector d = {};
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    a += words[i];
    b += words[i + 1];
    c += words[i + 2];
    d += words[i + 3];
  }
  a += b + c + d;
  std::uint64_t total = 0;
  for (int i = 0; i < 8; ++i) total += a[i];
  return total;
}

}  // namespace

double read_bandwidth(unsigned threads, std::size_t bytes) {
  constexpr std::size_t kLine = 4096;
  const std::size_t share = bytes / threads / kLine * kLine;
  const DeviceMemory buffer = allocate_aligned(share * threads);
  ThreadPool pool(threads);
  std::atomic<std::uint64_t> sink{0};
  const double best = best_seconds(0.3, [&] {
    pool.run([&](unsigned worker) {
      sink.fetch_add(sum_words(buffer.get() + worker * share, share), std::memory_order_relaxed);
    });
  });
  return static_cast<double>(share * threads) / best;
}

#ifdef LYNX_ONEDNN
double onednn_matmul_seconds(unsigned threads, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
  using Tag = dnnl::memory::format_tag;
  constexpr auto kF32 = dnnl::memory::data_type::f32;
  omp_set_num_threads(static_cast<int>(threads));
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::memory::desc x({m, k}, kF32, Tag::ab);
  const dnnl::memory::desc any_w({k, n}, kF32, Tag::any);
  const dnnl::memory::desc y({m, n}, kF32, Tag::ab);
  const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(x, any_w, y), engine);
  dnnl::memory in(x, engine);
  dnnl::memory weights(pd.weights_desc(), engine);
  dnnl::memory out(y, engine);
  for (dnnl::memory* memory : {&in, &weights, &out}) {
    std::fill_n(static_cast<float*>(memory->get_data_handle()), memory->get_desc().get_size() / sizeof(float),
                0.5F);
  }
  const dnnl::matmul matmul(pd);
  return best_seconds(0.1, [&] {
    matmul.execute(stream, {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, out}});
    stream.wait();
  });
}
#else
double onednn_matmul_seconds(unsigned, std::uint32_t, std::uint32_t, std::uint32_t) {
  throw std::runtime_error("this build has no oneDNN to compare with (CMake option LYNX_ONEDNN)");
}
#endif

}  // namespace lynx
