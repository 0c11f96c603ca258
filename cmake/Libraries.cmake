# Finds libraries without a CMake package, in CMAKE_PREFIX_PATH and then in the system.

# Makes the target teraio::NAME of lib<NAME> and `header`; `package` is the Debian package.
function(teraio_find_library name header package)
  find_path(TERAIO_${name}_INCLUDE ${header})
  find_library(TERAIO_${name}_LIBRARY ${name})
  mark_as_advanced(TERAIO_${name}_INCLUDE TERAIO_${name}_LIBRARY)
  if(NOT TERAIO_${name}_INCLUDE OR NOT TERAIO_${name}_LIBRARY)
    message(FATAL_ERROR "${header} or lib${name} is missing: install ${package}")
  endif()
  add_library(teraio::${name} UNKNOWN IMPORTED)
  set_target_properties(teraio::${name} PROPERTIES
    IMPORTED_LOCATION ${TERAIO_${name}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${TERAIO_${name}_INCLUDE})
endfunction()

teraio_find_library(uring liburing.h liburing-dev)
teraio_find_library(xxhash xxhash.h libxxhash-dev)
