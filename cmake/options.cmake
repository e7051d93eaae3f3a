# Language level, warnings and sanitizers, the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# -g1 keeps line numbers for stack traces at a fraction of the object size (and link time) of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")  # the sanitizer presets: a third less to compile, fast enough to run

# nvcc takes none of these as they stand: cmake/cuda.cmake has its own.
function(lynx_host_compile_options)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${ARGN}>")
endfunction()
lynx_host_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  lynx_host_compile_options(-Wno-mismatched-new-delete)  # coroutine frames: a false positive in GCC 12
endif()
if(LYNX_WERROR)
  lynx_host_compile_options(-Werror)
endif()

if(LYNX_SANITIZE)
  add_compile_options(-fsanitize=${LYNX_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LYNX_SANITIZE})
  if(LYNX_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(LYNX_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns about its own instrumented library code under -fsanitize.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  if(LYNX_SANITIZE MATCHES "thread")
    add_compile_options(-Wno-tsan)  # atomic_thread_fence in Asio and spdlog
  endif()
endif()

if(LYNX_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(LYNX_MOLD mold)
if(LYNX_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
find_package(Threads REQUIRED)
