# Lets the linker optimize a target together with the others that are marked, where the compiler can.
# Sanitizers and fuzzers build without it: what they report should name functions as they are written.
include(CheckIPOSupported)
check_ipo_supported(RESULT TERAIO_HAS_LINK_TIME_OPTIMIZATION LANGUAGES CXX OUTPUT ignored)

function(teraio_optimize_at_link_time target)
  if(TERAIO_HAS_LINK_TIME_OPTIMIZATION AND NOT TERAIO_SANITIZE AND NOT TERAIO_BUILD_FUZZERS)
    set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
  endif()
endfunction()
