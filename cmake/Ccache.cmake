# Compiles through ccache when it is installed. A launcher that is set by hand is kept, even an
# empty one: -DCMAKE_CXX_COMPILER_LAUNCHER= compiles without ccache.
#
# ccache sees paths of the source tree relative to the build folder and ignores that folder, so that
# a fresh clone elsewhere reuses what another clone has compiled. No command line may therefore
# define a path of the tree, except those of testing/test_files.cpp and cli/python.cpp.

find_program(TERAIO_CCACHE ccache)
mark_as_advanced(TERAIO_CCACHE)
if(TERAIO_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  message(STATUS "Compiling through ${TERAIO_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER
    env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TERAIO_CCACHE})
endif()
