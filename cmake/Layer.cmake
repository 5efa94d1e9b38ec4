# One precompiled header for all code that sees LibTorch.
add_library(colossal_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
target_link_libraries(colossal_pch PUBLIC colossal_flags colossal_torch fmt::fmt)
target_precompile_headers(colossal_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.h)

# colossal_layer(NAME SOURCES ... [LAYERS ...] [LIBRARIES ...] [NO_TORCH])
#
# A folder of src/colossal as a library that links only the layers that it may include.
# NO_TORCH: the folder may not name at:: or torch::, so it gets no LibTorch headers at all.
function(colossal_layer name)
  cmake_parse_arguments(ARG "NO_TORCH" "" "SOURCES;LAYERS;LIBRARIES" ${ARGN})
  list(TRANSFORM ARG_LAYERS PREPEND colossal_)
  add_library(colossal_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(colossal_${name} PUBLIC colossal_flags ${ARG_LAYERS} ${ARG_LIBRARIES} fmt::fmt)
  if(NOT ARG_NO_TORCH)
    target_link_libraries(colossal_${name} PUBLIC colossal_torch)
    target_precompile_headers(colossal_${name} REUSE_FROM colossal_pch)
  endif()
  set_property(GLOBAL APPEND PROPERTY colossal_layers colossal_${name})
endfunction()
