# LibTorch by hand: the headers and three libraries of the PyPI wheel (or of COLOSSAL_LIBTORCH).
# find_package(Torch) would add junk rpaths and, in CUDA wheels, ask for a whole toolkit.
set(COLOSSAL_LIBTORCH "$ENV{COLOSSAL_LIBTORCH}" CACHE PATH
    "A LibTorch folder (with include/ and lib/); default: the project's virtual environment")
if(NOT COLOSSAL_LIBTORCH AND SKBUILD)  # a wheel: the torch of the Python for which it is built
  execute_process(COMMAND ${Python_EXECUTABLE} -c
                  "from importlib.util import find_spec as find; print(*find('torch').submodule_search_locations)"
                  OUTPUT_VARIABLE COLOSSAL_LIBTORCH OUTPUT_STRIP_TRAILING_WHITESPACE)
elseif(NOT COLOSSAL_LIBTORCH)
  file(GLOB candidates ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(GET candidates 0 COLOSSAL_LIBTORCH)
endif()
if(NOT EXISTS ${COLOSSAL_LIBTORCH}/include/ATen/ATen.h)
  message(FATAL_ERROR "No LibTorch at '${COLOSSAL_LIBTORCH}': run tools/setup, or give -DCOLOSSAL_LIBTORCH=DIR")
endif()

set(torch_lib ${COLOSSAL_LIBTORCH}/lib)
add_library(colossal_torch INTERFACE)
# As options, so that an installed package may name a folder inside the source tree (.venv).
target_compile_options(colossal_torch INTERFACE "SHELL:-isystem ${COLOSSAL_LIBTORCH}/include"
  "SHELL:-isystem ${COLOSSAL_LIBTORCH}/include/torch/csrc/api/include")
target_compile_definitions(colossal_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
set(torch_libraries torch torch_cpu c10)
# GPUs: on where LibTorch is a CUDA build. Headers and run time come from the wheels that LibTorch's
# own wheel needs and that lie beside it, or from a toolkit.
if(EXISTS ${torch_lib}/libtorch_cuda.so)
  set(is_cuda_build ON)
else()
  set(is_cuda_build OFF)
endif()
option(COLOSSAL_CUDA "Train and generate on GPUs, over NCCL" ${is_cuda_build})
if(COLOSSAL_CUDA)
  set(wheels ${COLOSSAL_LIBTORCH}/../nvidia)
  set(toolkit ENV CUDA_HOME /usr/local/cuda)
  foreach(header cusparse.h crt/host_config.h)  # the second is a toolkit's, or of one more wheel
    string(MAKE_C_IDENTIFIER COLOSSAL_CUDA_${header} path)
    find_path(${path} ${header} HINTS ${wheels}/cu13/include ${toolkit} PATH_SUFFIXES include)
    list(APPEND cuda_parts ${path})
    list(APPEND cuda_includes "SHELL:-isystem ${${path}}")
  endforeach()
  find_library(COLOSSAL_CUDA_RUNTIME NAMES cudart libcudart.so.13 HINTS ${wheels}/cu13/lib ${toolkit}
               PATH_SUFFIXES lib lib64)
  foreach(part ${cuda_parts} COLOSSAL_CUDA_RUNTIME)
    if(NOT ${part})
      message(FATAL_ERROR "COLOSSAL_CUDA=ON needs a CUDA build of LibTorch and CUDA 13; "
        "${part} was not found beside '${COLOSSAL_LIBTORCH}' or in CUDA_HOME. Give it, or build with -DCOLOSSAL_CUDA=OFF")
    endif()
  endforeach()
  list(APPEND torch_libraries torch_cuda c10_cuda)
  # Kernels of our own need CUDA's compiler; without it, LibTorch's operators do their work.
  include(CheckLanguage)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;100-real;120" CACHE STRING
        "GPU architectures to compile kernels for: A100, H100, B200, and GeForce 50 and later")
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # LibTorch's
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know it of CUDA 13
  endif()
  target_compile_options(colossal_torch INTERFACE ${cuda_includes})
  target_link_libraries(colossal_torch INTERFACE ${COLOSSAL_CUDA_RUNTIME})
endif()
# The OpenMP that LibTorch loads: a second one would not know how many threads LibTorch is given.
file(GLOB torch_openmp ${torch_lib}/libgomp*.so*)
if(NOT torch_openmp)
  set(torch_openmp -lgomp)
endif()
target_link_libraries(colossal_torch INTERFACE ${torch_openmp})
list(TRANSFORM torch_libraries PREPEND -l)
# libstdc++ first: libtorch.so of CUDA wheels exports parts of an older one, whose
# std::filesystem::remove_all() calls a function that is not there.
target_link_libraries(colossal_torch INTERFACE -L${torch_lib}
  -Wl,--push-state,--no-as-needed -lstdc++ ${torch_libraries} -Wl,--pop-state)
if(COLOSSAL_PACKAGE)  # installed, it finds LibTorch elsewhere
  list(APPEND CMAKE_BUILD_RPATH ${torch_lib})
else()
  target_link_libraries(colossal_torch INTERFACE -Wl,-rpath,${torch_lib})
endif()
