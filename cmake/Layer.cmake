# Two precompiled headers: one for code that sees LibTorch, one for the rest.
foreach(pch standard torch)
  add_library(colossal_${pch}_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
  target_link_libraries(colossal_${pch}_pch PUBLIC colossal_flags fmt::fmt)
  target_precompile_headers(colossal_${pch}_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/${pch}_pch.h)
endforeach()
target_link_libraries(colossal_torch_pch PUBLIC colossal_torch)

# colossal_layer(NAME SOURCES ... [LAYERS ...] [LIBRARIES ...] [NO_TORCH])
#
# A folder of src/colossal as a library that links only the layers that it may include.
# NO_TORCH: the folder may not name at:: or torch::, so it gets no LibTorch headers at all.
function(colossal_layer name)
  cmake_parse_arguments(ARG "NO_TORCH" "" "SOURCES;LAYERS;LIBRARIES" ${ARGN})
  list(TRANSFORM ARG_LAYERS PREPEND colossal_)
  add_library(colossal_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(colossal_${name} PUBLIC colossal_flags ${ARG_LAYERS} ${ARG_LIBRARIES} fmt::fmt)
  if(ARG_NO_TORCH)
    target_precompile_headers(colossal_${name} REUSE_FROM colossal_standard_pch)
  else()
    target_link_libraries(colossal_${name} PUBLIC colossal_torch)
    target_precompile_headers(colossal_${name} REUSE_FROM colossal_torch_pch)
  endif()
  set_property(GLOBAL APPEND PROPERTY colossal_layers colossal_${name})
endfunction()
