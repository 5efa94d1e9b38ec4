# Apache Arrow, which reads Parquet and Arrow files: the headers and two libraries of PyPI's pyarrow
# (Debian 12 has none). Python is not needed at run time. Without Arrow, these formats are refused.
set(COLOSSAL_ARROW "" CACHE PATH
    "A pyarrow folder (with include/ and libarrow.so.N); default: the project's virtual environment")
if(NOT COLOSSAL_ARROW)
  file(GLOB candidates ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/pyarrow)
  if(candidates)
    list(GET candidates 0 COLOSSAL_ARROW)
  endif()
endif()
if(COLOSSAL_ARROW)
  file(GLOB arrow_libraries ${COLOSSAL_ARROW}/libarrow.so.* ${COLOSSAL_ARROW}/libparquet.so.*)
else()
  message(STATUS "No Apache Arrow: Parquet and Arrow files cannot be read (tools/setup installs it)")
endif()
