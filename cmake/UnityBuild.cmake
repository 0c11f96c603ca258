# Headers take most of the time that a file takes to compile, so several files are compiled as one.
# Names in unnamed namespaces therefore differ between the files of a folder. More files at a time
# make a build from nothing faster, and one after a change slower.
set(TERAIO_FILES_AT_ONCE "" CACHE STRING
  "Files that are compiled as one, in every target; empty: as each target has it")

# Compiles `files` files of a target as one; 0 for all of them, 1 for each by itself.
function(teraio_compile_at_once target files)
  if(TERAIO_FILES_AT_ONCE)
    set(files ${TERAIO_FILES_AT_ONCE})
  endif()
  if(NOT files EQUAL 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  endif()
endfunction()
