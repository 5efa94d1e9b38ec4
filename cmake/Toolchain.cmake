# Compiler, linker and cache settings. They must be equal for every target, or GCC silently drops
# the precompiled header; -Werror=invalid-pch turns that into an error.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Left off on purpose: ON would give executables -fPIE and libraries -fPIC, and one precompiled
# header fits only one of them. -fPIC goes to all through colossal_flags instead.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

# Of CMAKE_UNITY_BUILD, which the release preset turns on: every source that sees LibTorch pays 3
# seconds of template instantiations, whatever it holds, and every one that registers operators 10
# more, mostly the same ones as the next. All sources of most folders are one source then, of at most
# 40 seconds and 1.5 GiB; some folders are two.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

add_library(colossal_flags INTERFACE)
target_compile_options(colossal_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fPIC -Wall -Wextra
  -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers -Werror -Winvalid-pch
  -Werror=invalid-pch -fno-semantic-interposition>)
# No garbage collection within the compiler: a tenth less time.
target_compile_options(colossal_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=4000000>)
# A hash of the code, by which the ranks of a job know that all run the same (base/build_id.h).
target_link_options(colossal_flags INTERFACE -Wl,--build-id)
target_include_directories(colossal_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
find_program(MOLD mold)
if(MOLD)
  target_link_options(colossal_flags INTERFACE -fuse-ld=mold)
endif()
# at::parallel_for is made where it is called, and without OpenMP it runs on one thread. The thread
# sanitizer does not see how libgomp's threads wait for each other.
if(NOT COLOSSAL_SANITIZE MATCHES thread)
  target_compile_options(colossal_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
endif()
if(COLOSSAL_SANITIZE)
  target_compile_options(colossal_flags INTERFACE -fsanitize=${COLOSSAL_SANITIZE}
    -fno-omit-frame-pointer)
  target_link_options(colossal_flags INTERFACE -fsanitize=${COLOSSAL_SANITIZE})
  if(COLOSSAL_SANITIZE MATCHES "thread")
    # LibTorch's headers have fences, and the compiler warns that the sanitizer does not see those.
    target_compile_options(colossal_flags INTERFACE -Wno-tsan)
  endif()
endif()
