#include <cublasLt.h>

#include <array>
#include <map>
#include <tuple>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr std::uint32_t kTypicalRows = 1024;               // that the algorithm is chosen for

void require_blas(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(what + ": cuBLASLt: " + cublasLtGetStatusString(status));
}

cudaDataType_t data_type(Dtype dtype) { return dtype == Dtype::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

// cuBLAS counts by columns: our rows are its columns.
struct Layout {
  cublasLtMatrixLayoutOpaque_t opaque;
  Layout(Dtype dtype, std::uint64_t cols, std::uint64_t rows, std::size_t stride) {
    require_blas(
        cublasLtMatrixLayoutInit(&opaque, data_type(dtype), cols, rows, static_cast<std::int64_t>(stride)),
        "matrix layout");
  }
};

struct Preference {
  cublasLtMatmulPreferenceOpaque_t opaque;
  Preference() {
    require_blas(cublasLtMatmulPreferenceInit(&opaque), "preference");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspace});
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
    for (const auto alignment :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(alignment, std::uint32_t{16});
    }
  }
  template <typename Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    require_blas(cublasLtMatmulPreferenceSetAttribute(&opaque, attribute, &value, sizeof value),
                 "preference");
  }
};

using Key = std::tuple<std::uint32_t, std::uint32_t, Dtype>;  // n, k, type of out

}  // namespace

struct WideGemm::State {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  cublasLtMatmulDescOpaque_t operation;
  std::map<Key, cublasLtMatmulAlgo_t> algorithms;

  State() {
    require_blas(cublasLtCreate(&handle), "create");
    require(cudaMalloc(&workspace, kWorkspace), "workspace of the matrix products");
    require_blas(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "operation");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    require_blas(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                sizeof transposed),
                 "operation");
  }
  ~State() {
    cudaFree(workspace);
    if (handle != nullptr) cublasLtDestroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const cublasLtMatmulAlgo_t& algorithm(const GemmArgs& a);
};

// The first of the library's proposals that does not split k, for a typical number of rows; every other
// number of rows then gets the same kernel, and with it the same order of sums.
const cublasLtMatmulAlgo_t& WideGemm::State::algorithm(const GemmArgs& a) {
  const Key key{a.out.cols, a.x.cols, a.out.dtype};
  const auto known = algorithms.find(key);
  if (known != algorithms.end()) return known->second;

  Layout w(Dtype::kBf16, a.x.cols, a.out.cols, a.x.cols);
  Layout x(Dtype::kBf16, a.x.cols, kTypicalRows, a.x.cols);
  Layout out(a.out.dtype, a.out.cols, kTypicalRows, a.out.cols);
  Preference preference;
  std::array<cublasLtMatmulHeuristicResult_t, 16> proposals;
  int count = 0;
  const std::string shape = std::to_string(a.out.cols) + " x " + std::to_string(a.x.cols);
  require_blas(cublasLtMatmulAlgoGetHeuristic(handle, &operation, &w.opaque, &x.opaque, &out.opaque,
                                              &out.opaque, &preference.opaque,
                                              static_cast<int>(proposals.size()), proposals.data(), &count),
               "no algorithm for weights of " + shape);
  for (int i = 0; i < count; ++i) {
    std::int32_t splits = 0;
    std::size_t written = 0;
    const auto& proposal = proposals[static_cast<std::size_t>(i)];
    if (proposal.state != CUBLAS_STATUS_SUCCESS) continue;
    require_blas(cublasLtMatmulAlgoConfigGetAttribute(&proposal.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                      &splits, sizeof splits, &written),
                 "algorithm");
    if (splits <= 1) return algorithms.emplace(key, proposal.algo).first->second;
  }
  throw std::runtime_error("cuBLASLt: no algorithm without split-K for weights of " + shape);
}

WideGemm::WideGemm() : state_(std::make_unique<State>()) {}
WideGemm::~WideGemm() = default;

std::size_t WideGemm::workspace_bytes() { return kWorkspace; }

void WideGemm::run(const GemmArgs& a, cudaStream_t stream) {
  const cublasLtMatmulAlgo_t& algorithm = state_->algorithm(a);
  Layout w(Dtype::kBf16, a.x.cols, a.out.cols, a.x.cols);
  Layout x(Dtype::kBf16, a.x.cols, a.x.rows, a.x.stride);
  Layout out(a.out.dtype, a.out.cols, a.x.rows, a.out.stride);
  const float one = 1;
  const float beta = a.add ? 1 : 0;
  require_blas(cublasLtMatmul(state_->handle, &state_->operation, &one, a.weights, &w.opaque, a.x.data,
                              &x.opaque, &beta, a.out.data, &out.opaque, a.out.data, &out.opaque, &algorithm,
                              state_->workspace, kWorkspace, stream),
               "matrix product of " + std::to_string(a.x.rows) + " rows, " + std::to_string(a.out.cols) +
                   " x " + std::to_string(a.x.cols));
}

}  // namespace lynx::cuda
