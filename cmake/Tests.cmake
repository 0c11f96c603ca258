# Builds test programs and adds them to CTest.
#
# CTest runs a program in one process, or in a few that share its cases (SHARDS), because starting a
# process per case takes longer than most cases. The output of a process names the cases that fail.

find_package(GTest REQUIRED)

# Adds runs of `program` to CTest: NAME, or NAME.1 to NAME.n.
#   LABELS       what `ctest -L` knows the runs by
#   SHARDS       how many processes share the cases; 1 without it
#   ENVIRONMENT  VARIABLE=value, for each process
#   DISABLED     CTest lists the runs among those that it did not run
function(teraio_add_test name program)
  cmake_parse_arguments(PARSE_ARGV 2 test "DISABLED" "SHARDS" "LABELS;ENVIRONMENT")
  if(NOT test_SHARDS)
    set(test_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${test_SHARDS})
    set(entry ${name})
    if(test_SHARDS GREATER 1)
      set(entry ${name}.${shard})
    endif()
    math(EXPR index "${shard} - 1")
    set(scratch ${CMAKE_BINARY_DIR}/test-scratch/${entry})
    file(MAKE_DIRECTORY ${scratch})
    add_test(NAME ${entry} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${entry} PROPERTIES
      TIMEOUT 900 LABELS "${test_LABELS}" DISABLED ${test_DISABLED}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${test_SHARDS};GTEST_SHARD_INDEX=${index};TEST_TMPDIR=${scratch};${test_ENVIRONMENT}")
  endforeach()
endfunction()

# Builds the program NAME_tests from SOURCES and links the libraries LIBRARIES. It is optimized only
# as far as that makes compiling faster, because it runs for a moment.
function(teraio_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "" "SOURCES;LIBRARIES")
  add_executable(${name}_tests ${program_SOURCES})
  target_include_directories(${name}_tests PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(${name}_tests PRIVATE $<$<CONFIG:Release>:-Og>)
  teraio_compile_at_once(${name}_tests 6)
  target_link_libraries(${name}_tests PRIVATE
    ${program_LIBRARIES} teraio_testing teraio_test_main GTest::gmock)
endfunction()

# Builds tests/<layer>/*.cpp as one program that also links the libraries ARGN, and that CTest runs
# in SHARDS processes. A layer without tests is an error.
function(teraio_layer_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "" "SHARDS" "")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "tests/${name} has no tests: add tests/${name}/*_test.cpp")
  endif()
  set(library teraio_${name})
  teraio_test_program(${name} SOURCES ${sources} LIBRARIES ${library} ${layer_UNPARSED_ARGUMENTS})
  teraio_add_test(${name}_tests ${name}_tests SHARDS ${layer_SHARDS} LABELS ${name})
endfunction()
