// Device memory for tests: poisoned with 0xFF (a NaN in f32 and bf16) unless it starts with values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace lynx::cuda {

inline void expect_ok(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

// Why there is no GPU to test on, or empty; also where one is there and cannot be used, so that tests fail.
inline std::string missing_gpu() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver";
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) return "no CUDA device";
  return {};
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    expect_ok(cudaMalloc(reinterpret_cast<void**>(&data_), bytes() + 1));
    poison();
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { upload(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  std::size_t size() const { return count_; }
  void poison() { expect_ok(cudaMemset(data_, 0xFF, bytes())); }
  void clear() { expect_ok(cudaMemset(data_, 0, bytes())); }
  void upload(const std::vector<T>& values) {
    expect_ok(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> download() const { return download_from(data_, count_); }
  static std::vector<T> download_from(const T* from, std::size_t count) {
    std::vector<T> values(count);
    expect_ok(cudaDeviceSynchronize());
    expect_ok(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  T* data_ = nullptr;
  std::size_t count_;
};

}  // namespace lynx::cuda
