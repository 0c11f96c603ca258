# Finds the header and library of cuFile, in the PyTorch wheel or a CUDA toolkit, which a test
# compares with our declarations.
get_filename_component(python_folder "${Python_EXECUTABLE}" DIRECTORY)
file(GLOB wheel_includes
  ${python_folder}/../lib/python*/site-packages/nvidia/*/include
  ${CMAKE_SOURCE_DIR}/.venv/lib/python*/site-packages/nvidia/*/include)
find_path(TERAIO_CUFILE_INCLUDE cufile.h HINTS ${wheel_includes} PATHS /usr/local/cuda/include)
find_path(TERAIO_CUDA_INCLUDE cuda.h HINTS ${wheel_includes} PATHS /usr/local/cuda/include)
find_library(TERAIO_CUFILE_LIBRARY libcufile.so.0
  HINTS ${TERAIO_CUFILE_INCLUDE}/../lib PATHS /usr/local/cuda/lib64)
set(has_parameters "")
if(TERAIO_CUFILE_LIBRARY AND TERAIO_CUFILE_INCLUDE AND TERAIO_CUDA_INCLUDE)
  # Older headers lack half of what the test compares.
  file(STRINGS ${TERAIO_CUFILE_INCLUDE}/cufile.h has_parameters REGEX "CUFILE_PARAM_FORCE_COMPAT_MODE")
endif()
if(has_parameters)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/io/cufile_abi_test.cpp
    DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTIES
    COMPILE_DEFINITIONS "TERAIO_HAS_CUFILE_HEADER;TERAIO_CUFILE_LIBRARY=\"${TERAIO_CUFILE_LIBRARY}\""
    COMPILE_OPTIONS "-isystem${TERAIO_CUFILE_INCLUDE};-isystem${TERAIO_CUDA_INCLUDE}")
endif()
