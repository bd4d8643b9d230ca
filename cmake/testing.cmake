# How tests are declared (tests/CMakeLists.txt lists them).
#
#   weft_test(NAME LABELS label... SOURCES file... [TIMEOUT seconds] [SERIAL] [QUICK] [LONG] [SUPPORT]
#             [DEFINITIONS ...] [ENVIRONMENT VAR=value...])
#       one program, one ctest entry, or as many as WEFT_TEST_PARTS says, each with a part of its tests. Label `conformance` sees only the public headers, the others src/.
#   weft_tests(LABEL [options as above] FILES file...)
#       one weft_test per file; unit/gmp/run_queue_test.cc becomes unit.gmp.run_queue.
#   weft_models(file...)
#       one program of all models, compiled with WEFT_MODEL and without the library, and one ctest
#       entry per test in it.
#
# QUICK tests belong to `./weft test --quick`, but for those in weft_not_quick, LONG ones run only in `./weft test --full`; SERIAL ones
# run alone; SUPPORT links tests/support. The timeout is multiplied by WEFT_TEST_TIMEOUT_SCALE, which slow presets set.
#
# No preset but release has all tests: each leaves out by name (WEFT_TEST_LEAVE_OUT) what it could say little about,
# so that all of them fit into the time of a commit. `./weft test --full` leaves out only what clang++ cannot pass.

set(WEFT_TEST_TIMEOUT_SCALE 1 CACHE STRING "Factor on the timeout of every test")
set(WEFT_TEST_ENVIRONMENT "" CACHE STRING "VAR=value list given to every test")
set(WEFT_TEST_FLAGS "" CACHE STRING "Compiler flags for test programs, after those of the build type")
set(WEFT_TEST_UNOPTIMIZED "" CACHE STRING "Regular expression: tests that are compiled with -O0 whatever the build type")
set(WEFT_TEST_LEAVE_OUT "" CACHE STRING "Regular expression: tests that are neither built nor run")
set(WEFT_STRESS_SECONDS 2 CACHE STRING "Time of one stress test, over all numbers of Ps")
mark_as_advanced(WEFT_TEST_TIMEOUT_SCALE WEFT_TEST_ENVIRONMENT WEFT_TEST_FLAGS WEFT_TEST_LEAVE_OUT
  WEFT_TEST_UNOPTIMIZED WEFT_STRESS_SECONDS)

# The longest ones, which mostly wait, for children or for a processor, thousands of times: NAME=PARTS. Four is one for each
# number of Ps (tests/support/fixture.h).
set(WEFT_TEST_PARTS conformance.exit=4 conformance.exit_threads=2 conformance.plain_threads=4 crash=3)

# Test programs that start others (crash tests) need the emulator's words in a cross build.
set(weft_test_environment ${WEFT_TEST_ENVIRONMENT} WEFT_STRESS_SECONDS=${WEFT_STRESS_SECONDS})
if(CMAKE_CROSSCOMPILING_EMULATOR)
  string(REPLACE ";" " " weft_emulator "${CMAKE_CROSSCOMPILING_EMULATOR}")
  list(APPEND weft_test_environment "WEFT_TEST_EMULATOR=${weft_emulator}")
endif()

add_custom_target(weft_quick_tests COMMENT "tests of ./weft test --quick")

# What all test programs share: warnings, GoogleTest, and its header compiled once; once more without optimisation.
file(CONFIGURE OUTPUT pch.cc CONTENT "// carries the precompiled header of the tests\n")
function(weft_precompiled name)
  add_library(${name} STATIC ${CMAKE_CURRENT_BINARY_DIR}/pch.cc)
  target_link_libraries(${name} PUBLIC GTest::gtest_main weft::weft)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h>)
  # clang++ takes from it what a file needs: a third of the time. g++ reads all of it for every file and gains nothing;
  # and with g++, files must include what they use.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_precompile_headers(${name} PRIVATE <algorithm> <atomic> <chrono> <functional> <memory> <string> <thread>
      <vector> <weft/weft.h>)
  endif()
  target_compile_definitions(${name} PRIVATE $<TARGET_PROPERTY:weft,COMPILE_DEFINITIONS>)
  weft_strict(${name})
  target_compile_options(${name} PRIVATE ${WEFT_TEST_FLAGS} ${ARGN})
endfunction()
weft_precompiled(weft_test_pch)
if(WEFT_TEST_UNOPTIMIZED)
  weft_precompiled(weft_test_pch_unoptimized -O0)
endif()

# weft_compile_as_test(TARGET): warnings, flags and precompiled header of a test program.
function(weft_compile_as_test target)
  weft_strict(${target})
  target_compile_options(${target} PRIVATE ${WEFT_TEST_FLAGS})
  target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:weft,COMPILE_DEFINITIONS>)
  if(WEFT_TEST_UNOPTIMIZED AND target MATCHES "${WEFT_TEST_UNOPTIMIZED}")
    target_compile_options(${target} PRIVATE -O0)
    target_precompile_headers(${target} REUSE_FROM weft_test_pch_unoptimized)
  else()
    target_precompile_headers(${target} REUSE_FROM weft_test_pch)
  endif()
endfunction()

# They look at what only g++'s programs show: the names in clang++'s -g1 have no namespaces, it unrolls loops, so that one
# `go` is several places, and it reads errno by an address from before a park.
set(weft_gcc_only "^(crash.(gdb|mistakes|schedtrace|symbol)|unit.debug.source)$")

# Of those that are declared QUICK, the ones that take longest, two seconds and more beside five others on two processors: six
# of seven seconds of all. Others that are quicker look at the same things, if not as closely.
set(weft_not_quick "^(conformance.(condition_variable|eintr|exit|exit_threads|fairness|future|go|in_place|lock_os_thread|net|parallelism|plain_threads|stop_callback|switch_state|ticker|timer|timer_crowd|world)|crash|crash.(gdb|mistakes|run|sanitizer|tools)|unit.gmp.run_queue|unit.io.process|unit.sched.(exit_guardian_process|lost_wakeup_process|max_procs_process|preempt_process|reserves|scavenger_process|sysmon_process|timers|wakeup))$")

function(weft_test name)
  if(WEFT_TEST_LEAVE_OUT AND name MATCHES "${WEFT_TEST_LEAVE_OUT}")
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND name MATCHES "${weft_gcc_only}")
    return()
  endif()
  cmake_parse_arguments(arg "SERIAL;QUICK;LONG;SUPPORT" "PROCESSORS;TIMEOUT" "LABELS;SOURCES;DEFINITIONS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  weft_compile_as_test(${name})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE weft::weft GTest::gtest_main)
  if(arg_SUPPORT)
    target_link_libraries(${name} PRIVATE weft_test_support)
  endif()
  if(NOT conformance IN_LIST arg_LABELS)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  endif()

  if(arg_QUICK AND NOT name MATCHES "${weft_not_quick}")
    list(APPEND arg_LABELS quick)
    add_dependencies(weft_quick_tests ${name})
  endif()
  if(arg_LONG)
    list(APPEND arg_LABELS long)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  math(EXPR timeout "${arg_TIMEOUT} * ${WEFT_TEST_TIMEOUT_SCALE}")
  set(parts 1)
  if("${WEFT_TEST_PARTS}" MATCHES "(^|;)${name}=([0-9]+)")
    set(parts ${CMAKE_MATCH_2})
  endif()
  foreach(part RANGE 1 ${parts})
    set(entry ${name})
    set(environment ${weft_test_environment} ${arg_ENVIRONMENT})
    if(parts GREATER 1)
      string(APPEND entry ".part${part}")
      math(EXPR index "${part} - 1")
      list(APPEND environment GTEST_TOTAL_SHARDS=${parts} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${entry} COMMAND ${name})
    set_tests_properties(${entry} PROPERTIES
      LABELS "${arg_LABELS}"
      TIMEOUT ${timeout}
      RUN_SERIAL ${arg_SERIAL}
      PROCESSORS ${arg_PROCESSORS}
      ENVIRONMENT "${environment}")
    if(parts GREATER 1)
      set_tests_properties(${entry} PROPERTIES COST 50)  # early: they are long
    endif()
  endforeach()
endfunction()

# weft_long_form(NAME TIMEOUT ENVIRONMENT...): that test once more, as NAME.full, with limits for which a commit has no time.
function(weft_long_form name seconds)
  if(NOT TARGET ${name})
    return()
  endif()
  math(EXPR timeout "${seconds} * ${WEFT_TEST_TIMEOUT_SCALE}")
  add_test(NAME ${name}.full COMMAND ${name})
  set_tests_properties(${name}.full PROPERTIES LABELS long TIMEOUT ${timeout} RUN_SERIAL ON
    ENVIRONMENT "${weft_test_environment};${ARGN}")
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
  # What is destroyed remembers it, for those who come too late (model/memory.h): no dead store.
  target_compile_options(models PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-lifetime-dse>)
  # The library's files in the groups of its unity builds, which cost a tenth.
  set_target_properties(models PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(file IN LISTS ARGN)
    if(file MATCHES "/src/")
      get_property(group SOURCE ${file} TARGET_DIRECTORY weft PROPERTY UNITY_GROUP)
      set_property(SOURCE ${file} PROPERTY UNITY_GROUP "${group}")
    endif()
  endforeach()
  include(GoogleTest)
  # __FILE__ may be relative to the build directory (ccache makes it so).
  gtest_discover_tests(models TEST_PREFIX model. WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
    PROPERTIES LABELS model TIMEOUT 900 COST 100)  # first: they are the longest, and do nothing but compute
endfunction()
