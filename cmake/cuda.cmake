# The CUDA language, for LYNX_CUDA=ON. CUDA's runtime is linked statically: a binary starts without a driver
# and says so; cuBLASLt is too large for that and stays a shared library.
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS /usr/local/cuda/bin REQUIRED)
endif()
find_program(LYNX_CCACHE ccache)
if(LYNX_CCACHE AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${LYNX_CCACHE})
endif()
# 90a is Hopper with everything it has, and some kernels are for it alone (kernels/cuda/kernel_set.h). Others are
# added by their numbers; the newest of them also goes in as PTX, which the driver of a later GPU compiles.
set(LYNX_CUDA_ARCHITECTURES "90a" CACHE STRING "Compute capabilities to build for: 90a, or for instance 90a;80;86;89")
set(CMAKE_CUDA_ARCHITECTURES OFF)
if(NOT "90a" IN_LIST LYNX_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "LYNX_CUDA_ARCHITECTURES: 90a is always among them")
endif()
option(LYNX_STEP_TIMELINE "Kernels leave marks for lynx-bench step --timeline" OFF)
if(LYNX_STEP_TIMELINE)
  add_compile_definitions($<$<COMPILE_LANGUAGE:CUDA>:LYNX_STEP_TIMELINE>)
endif()

set(LYNX_CUDA_HOPPER_CODE "-gencode=arch=compute_90a,code=sm_90a")
set(LYNX_CUDA_CODE ${LYNX_CUDA_HOPPER_CODE})
set(others ${LYNX_CUDA_ARCHITECTURES})
list(REMOVE_ITEM others 90a)
list(SORT others COMPARE NATURAL)
foreach(architecture ${others})
  if(NOT architecture MATCHES "^[1-9][0-9]+$" OR architecture LESS 80)
    message(FATAL_ERROR "LYNX_CUDA_ARCHITECTURES: '${architecture}' is not 90a or a number from 80 on")
  endif()
  list(APPEND LYNX_CUDA_CODE "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  set(newest ${architecture})
endforeach()
if(others)
  list(APPEND LYNX_CUDA_CODE "-gencode=arch=compute_${newest},code=compute_${newest}")
endif()
# CMake 3.25 does not know the flag of this nvcc for C++20.
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
# Kernels compressed for size: a sixth of the bytes, unpacked once at start.
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -lineinfo -DNDEBUG --compress-mode=size")
# CUDA 13 has no nvToolsExt any more, and the module of CMake 3.25 as released sets a property on it unseen.
if(NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit 13 REQUIRED)

# Programs find the libraries of a bundle (deploy/cuda/bundle) beside themselves; as RPATH, so that this holds for
# what those libraries name, too.
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)

# lynx_cuda_library(NAME [HOPPER] SOURCES... DEPS...): as lynx_library, with .cu files among the sources. HOPPER:
# what they hold is for that architecture alone.
function(lynx_cuda_library name)
  cmake_parse_arguments(ARG "HOPPER" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  set(code ${LYNX_CUDA_CODE})
  if(ARG_HOPPER)
    set(code ${LYNX_CUDA_HOPPER_CODE})
  endif()
  lynx_library(${name} SOURCES ${ARG_SOURCES} DEPS CUDA::cudart_static ${ARG_DEPS} PRIVATE_DEPS ${ARG_PRIVATE_DEPS})
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:${code};-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter;--expt-relaxed-constexpr>")
  if(LYNX_WERROR)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
  endif()
endfunction()
