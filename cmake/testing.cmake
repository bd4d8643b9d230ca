# How tests are declared (tests/CMakeLists.txt lists them).
#
#   weft_test(NAME LABELS label... SOURCES file... [TIMEOUT seconds] [SERIAL] [QUICK] [LONG] [SUPPORT]
#             [DEFINITIONS ...] [ENVIRONMENT VAR=value...])
#       one program, one ctest entry. Label `conformance` sees only the public headers, the others src/.
#   weft_tests(LABEL [options as above] FILES file...)
#       one weft_test per file; unit/gmp/run_queue_test.cc becomes unit.gmp.run_queue.
#   weft_models(file...)
#       one program of all models, compiled with WEFT_MODEL and without the library, and one ctest
#       entry per test in it.
#
# QUICK tests belong to `./weft test --quick`, LONG ones run only in `./weft test --full`; SERIAL ones
# run alone; SUPPORT links tests/support. The timeout is multiplied by WEFT_TEST_TIMEOUT_SCALE, which slow presets set.
#
# No preset but release has all tests: each leaves out by name (WEFT_TEST_LEAVE_OUT) what it could say little about,
# so that all of them fit into the time of a commit. `./weft test --full` leaves nothing out.

set(WEFT_TEST_TIMEOUT_SCALE 1 CACHE STRING "Factor on the timeout of every test")
set(WEFT_TEST_ENVIRONMENT "" CACHE STRING "VAR=value list given to every test")
set(WEFT_TEST_FLAGS "" CACHE STRING "Compiler flags for test programs, after those of the build type")
set(WEFT_TEST_LEAVE_OUT "" CACHE STRING "Regular expression: tests that are neither built nor run")
set(WEFT_STRESS_SECONDS 2 CACHE STRING "Time of one stress test, over all numbers of Ps")
mark_as_advanced(WEFT_TEST_TIMEOUT_SCALE WEFT_TEST_ENVIRONMENT WEFT_TEST_FLAGS WEFT_TEST_LEAVE_OUT
  WEFT_STRESS_SECONDS)

# Test programs that start others (crash tests) need the emulator's words in a cross build.
set(weft_test_environment ${WEFT_TEST_ENVIRONMENT} WEFT_STRESS_SECONDS=${WEFT_STRESS_SECONDS})
if(CMAKE_CROSSCOMPILING_EMULATOR)
  string(REPLACE ";" " " weft_emulator "${CMAKE_CROSSCOMPILING_EMULATOR}")
  list(APPEND weft_test_environment "WEFT_TEST_EMULATOR=${weft_emulator}")
endif()

add_custom_target(weft_quick_tests COMMENT "tests of ./weft test --quick")

# What all test programs share: warnings, GoogleTest, and its header compiled once.
add_library(weft_test_pch STATIC ${CMAKE_CURRENT_BINARY_DIR}/pch.cc)
file(CONFIGURE OUTPUT pch.cc CONTENT "// carries the precompiled header of the tests\n")
target_link_libraries(weft_test_pch PUBLIC GTest::gtest_main weft::weft)
target_precompile_headers(weft_test_pch PRIVATE <gtest/gtest.h>)
target_compile_definitions(weft_test_pch PRIVATE $<TARGET_PROPERTY:weft,COMPILE_DEFINITIONS>)
weft_strict(weft_test_pch)
target_compile_options(weft_test_pch PRIVATE ${WEFT_TEST_FLAGS})

function(weft_test name)
  if(WEFT_TEST_LEAVE_OUT AND name MATCHES "${WEFT_TEST_LEAVE_OUT}")
    return()
  endif()
  cmake_parse_arguments(arg "SERIAL;QUICK;LONG;SUPPORT" "TIMEOUT" "LABELS;SOURCES;DEFINITIONS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  weft_strict(${name})
  target_compile_options(${name} PRIVATE ${WEFT_TEST_FLAGS})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS} $<TARGET_PROPERTY:weft,COMPILE_DEFINITIONS>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE weft::weft GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM weft_test_pch)
  if(arg_SUPPORT)
    target_link_libraries(${name} PRIVATE weft_test_support)
  endif()
  if(NOT conformance IN_LIST arg_LABELS)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  endif()

  add_test(NAME ${name} COMMAND ${name})
  if(arg_QUICK)
    list(APPEND arg_LABELS quick)
    add_dependencies(weft_quick_tests ${name})
  endif()
  if(arg_LONG)
    list(APPEND arg_LABELS long)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  math(EXPR timeout "${arg_TIMEOUT} * ${WEFT_TEST_TIMEOUT_SCALE}")
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}"
    TIMEOUT ${timeout}
    RUN_SERIAL ${arg_SERIAL}
    ENVIRONMENT "${weft_test_environment};${arg_ENVIRONMENT}")
endfunction()

function(weft_tests label)
  cmake_parse_arguments(arg "" "" "FILES" ${ARGN})
  foreach(file IN LISTS arg_FILES)
    string(REGEX REPLACE "(_test|_model)?\\.cc$" "" name ${file})
    string(REPLACE "/" "." name ${name})
    weft_test(${name} LABELS ${label} SOURCES ${file} ${arg_UNPARSED_ARGUMENTS})
  endforeach()
endfunction()

function(weft_models)
  add_executable(models ${ARGN})
  weft_strict(models)
  target_compile_features(models PRIVATE cxx_std_20)
  target_compile_definitions(models PRIVATE WEFT_MODEL)
  target_include_directories(models PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(models PRIVATE GTest::gtest_main)
  include(GoogleTest)
  # __FILE__ may be relative to the build directory (ccache makes it so).
  gtest_discover_tests(models TEST_PREFIX model. WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
    PROPERTIES LABELS model TIMEOUT 300 COST 100)  # first: they are the longest
endfunction()
