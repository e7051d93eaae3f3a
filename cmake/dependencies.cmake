# Every outside library, found once. What each is for: README.md of the folder that uses it.
find_package(Boost 1.81 REQUIRED)                 # Asio and Beast, headers only
find_package(CapnProto REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ucx REQUIRED)
find_package(OpenSSL REQUIRED)                    # HMAC of the cluster secret; TLS on the router
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
if(LYNX_ONEDNN)
  find_library(LYNX_DNNL dnnl REQUIRED)           # its own package config asks for OpenCL
endif()
if(LYNX_TESTS AND NOT LYNX_FUZZ)
  find_package(GTest REQUIRED)
  find_package(Boost 1.81 REQUIRED COMPONENTS context)  # fibers: tests/kernels/cuda_on_cpu
endif()
