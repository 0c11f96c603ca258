# Compiles through ccache where it is installed. A launcher that was chosen by hand stays, an empty one
# too: -DCMAKE_CXX_COMPILER_LAUNCHER= compiles without ccache.
#
# Paths in the source tree count relative to the build folder, and the folder itself does not count: a
# fresh clone elsewhere finds what another one compiled. For this to work, no command line may name a
# path of the tree in a definition; testing/test_files.cpp and cli/python.cpp do so for all others.

find_program(TERAIO_CCACHE ccache)
mark_as_advanced(TERAIO_CCACHE)
if(TERAIO_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  message(STATUS "Compiling through ${TERAIO_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER
    env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TERAIO_CCACHE})
endif()
