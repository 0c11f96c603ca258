# Shell completions, made by the built command and its Python part from what their
# `--help` is made from, into build/share. The Python of the build needs shtab; see
# requirements/README.md.
execute_process(COMMAND ${Python_EXECUTABLE} -c "import shtab"
  RESULT_VARIABLE reference_missing ERROR_QUIET)
if(reference_missing)
  message(STATUS "No files of completions: ${Python_EXECUTABLE} has no shtab")
  return()
endif()

file(GLOB_RECURSE reference_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/teraio/*.py)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/share/.made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/share
  COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${CMAKE_BINARY_DIR}/python
    ${Python_EXECUTABLE} -m teraio.reference ${CMAKE_BINARY_DIR}/share
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/share/.made
  DEPENDS teraio teraio_units ${reference_sources}
  COMMENT "Writing completions" VERBATIM)
add_custom_target(teraio_reference ALL DEPENDS ${CMAKE_BINARY_DIR}/share/.made)

# A wheel puts them into the environment's share, beside the bin of the command.
if(SKBUILD)
  set(reference_parent ${SKBUILD_DATA_DIR})
else()
  set(reference_parent .)
endif()
install(DIRECTORY ${CMAKE_BINARY_DIR}/share DESTINATION ${reference_parent} PATTERN .made EXCLUDE)
