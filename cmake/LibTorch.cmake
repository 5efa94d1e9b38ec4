# LibTorch by hand: the headers and three libraries of the PyPI wheel (or of COLOSSAL_LIBTORCH).
# find_package(Torch) would add junk rpaths and, in CUDA wheels, ask for a whole toolkit.
set(COLOSSAL_LIBTORCH "$ENV{COLOSSAL_LIBTORCH}" CACHE PATH
    "A LibTorch folder (with include/ and lib/); default: the project's virtual environment")
if(NOT COLOSSAL_LIBTORCH)
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
if(COLOSSAL_CUDA)
  find_package(CUDAToolkit REQUIRED)
  list(APPEND torch_libraries torch_cuda c10_cuda)
  target_compile_definitions(colossal_torch INTERFACE USE_C10D_NCCL)
  target_link_libraries(colossal_torch INTERFACE CUDA::cudart)
  # The wheel of LibTorch needs NCCL's wheel, which lies beside it and has the header.
  find_path(COLOSSAL_NCCL_INCLUDE nccl.h HINTS ${COLOSSAL_LIBTORCH}/../nvidia/nccl/include REQUIRED)
  target_compile_options(colossal_torch INTERFACE "SHELL:-isystem ${COLOSSAL_NCCL_INCLUDE}")
endif()
list(TRANSFORM torch_libraries PREPEND -l)
target_link_libraries(colossal_torch INTERFACE -L${torch_lib}
  -Wl,--push-state,--no-as-needed ${torch_libraries} -Wl,--pop-state -Wl,-rpath,${torch_lib})
