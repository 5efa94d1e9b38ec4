find_package(GTest REQUIRED)
include(ProcessorCount)

# run_almost_alone(TEST): of the slots of ./test, one more than cores, it leaves one to another test.
function(run_almost_alone test)
  ProcessorCount(cores)
  if(cores LESS 2)
    set(cores 2)
  endif()
  set_tests_properties(${test} PROPERTIES PROCESSORS ${cores})
endfunction()

# colossal_test(FOLDER SOURCES ... LAYERS ... [LIBRARIES ...] [NO_TORCH] [SERIAL] [ALMOST_ALONE]
#               [SECONDS n])
#
# One binary a folder, test_FOLDER. Suites whose name starts with "Slow" run with --all only. SERIAL:
# how long things take is asserted, so that no other test runs beside it. ALMOST_ALONE: it is, with
# limits of several times that, so that at most one does. SECONDS: about how long the fast ones take,
# of which ctest starts the longest first; 0 where it is little.
function(colossal_test folder)
  cmake_parse_arguments(ARG "NO_TORCH;SERIAL;ALMOST_ALONE" "SECONDS" "SOURCES;LAYERS;LIBRARIES" ${ARGN})
  list(TRANSFORM ARG_LAYERS PREPEND colossal_)
  set(target test_${folder})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LAYERS} ${ARG_LIBRARIES} colossal_flags GTest::gmock GTest::gtest_main)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  # A fifth less time to compile; the precompiled header of -O2 fits.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${target} PRIVATE COLOSSAL_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    COLOSSAL_TEST_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(ARG_NO_TORCH)
    target_precompile_headers(${target} REUSE_FROM colossal_standard_pch)
  else()
    target_link_libraries(${target} PRIVATE colossal_torch)
    target_precompile_headers(${target} REUSE_FROM colossal_torch_pch)
  endif()
  add_test(NAME ${folder} COMMAND ${target} --gtest_filter=-Slow* --gtest_brief=1)
  # Idle threads of OpenMP spin no longer than those of the program do (cli/thread_spinning.cpp): on a
  # core that another test needs, they made both take several times as long.
  set(environment "GOMP_SPINCOUNT=1000")
  if(COLOSSAL_SANITIZE MATCHES "thread")
    # With a longer history it knows the stacks of both threads, which suppressions need.
    list(APPEND environment
         "TSAN_OPTIONS=history_size=7:suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.suppressions")
  endif()
  set_tests_properties(${folder} PROPERTIES LABELS fast TIMEOUT 600 RUN_SERIAL ${ARG_SERIAL}
    COST "${ARG_SECONDS}" ENVIRONMENT "${environment}")
  if(ARG_ALMOST_ALONE)
    run_almost_alone(${folder})
  endif()
  foreach(source ${ARG_SOURCES})
    file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/${source} slow REGEX "(TEST(_F|_P)?|INSTANTIATE_TEST_SUITE_P)\\(Slow")
    if(slow)
      add_test(NAME ${folder}_slow COMMAND ${target} --gtest_filter=Slow* --gtest_brief=1)
      set_tests_properties(${folder}_slow PROPERTIES LABELS slow TIMEOUT 3600 ENVIRONMENT "${environment}")
      break()
    endif()
  endforeach()
endfunction()
