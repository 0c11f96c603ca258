# Finds the Python interpreter and each PyTorch that an extension is built for: the one of the
# environment or, for a wheel that serves several, those of TERAIO_TORCH_FOLDERS.
#
# Sets Python_EXECUTABLE, Python::Module, TERAIO_TORCHES ("2_11;2_12": their minor versions) and for
# each of them
#   TORCH_2_11_CUDA_LIBRARY  its libc10_cuda.so; empty for a PyTorch without CUDA
#   TORCH_2_11_CUDA_MAJOR    the major version of its CUDA, "13"; empty for a PyTorch without CUDA
#   torch_2_11               a target with its headers and libraries
# and for the first of them TORCH_CUDA_LIBRARY, torch_directory and the target torch_wheel. Does not
# use find_package(Torch) of the wheel, which in a CUDA wheel asks for nvcc even when only C++ is compiled.

set(TERAIO_TORCH_FOLDERS "" CACHE STRING
  "Folders that contain the package torch, in one version each, to build an extension for each of them")

if(NOT Python_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
set(Python_FIND_VIRTUALENV FIRST)
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)

set(torch_folders ${TERAIO_TORCH_FOLDERS})
if(NOT torch_folders)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import importlib.util
from pathlib import Path
print(Path(importlib.util.find_spec('torch').submodule_search_locations[0]).parent)"
    OUTPUT_VARIABLE torch_folders OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE torch_missing ERROR_QUIET)
  if(torch_missing)
    message(FATAL_ERROR
      "${Python_EXECUTABLE} has no PyTorch. Install torch 2.11 to 2.15 there first; "
      "with pip, build against it by: pip install --no-build-isolation .")
  endif()
endif()

# Sets `result` to the text that version.py assigns to `name`, or to nothing for None. Importing
# torch instead would take seconds and a gigabyte of memory.
function(teraio_read_torch_fact version_file name result)
  file(STRINGS ${version_file} line REGEX "^${name}[: ]")
  if(line MATCHES "= *['\"]([^'\"]+)")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    set(${result} "" PARENT_SCOPE)
  endif()
endfunction()

# Makes the target torch_<torch> of the package in `directory`.
function(teraio_add_torch torch directory)
  add_library(torch_${torch} INTERFACE)
  target_include_directories(torch_${torch} SYSTEM INTERFACE
    ${directory}/include ${directory}/include/torch/csrc/api/include)
  target_link_libraries(torch_${torch} INTERFACE
    ${directory}/lib/libtorch_python.so ${directory}/lib/libtorch_cpu.so ${directory}/lib/libc10.so)
  # at::RecordFunction has the layout of the wheel only with NDEBUG. The wheel contains headers of
  # fmt, which come before those of the system and have no library.
  target_compile_definitions(torch_${torch} INTERFACE NDEBUG FMT_HEADER_ONLY=1)
endfunction()

set(TERAIO_TORCHES "")
foreach(folder ${torch_folders})
  teraio_read_torch_fact(${folder}/torch/version.py __version__ version)
  message(STATUS "PyTorch ${version} in ${folder}")
  if(version VERSION_LESS 2.11 OR version VERSION_GREATER_EQUAL 2.16)
    message(FATAL_ERROR "PyTorch ${version} is not supported: install one of 2.11 to 2.15")
  endif()
  string(REGEX REPLACE "^([0-9]+)\\.([0-9]+).*" "\\1_\\2" torch ${version})
  list(APPEND TERAIO_TORCHES ${torch})
  teraio_add_torch(${torch} ${folder}/torch)
  file(GLOB TORCH_${torch}_CUDA_LIBRARY ${folder}/torch/lib/libc10_cuda.so)
  teraio_read_torch_fact(${folder}/torch/version.py cuda cuda_version)
  string(REGEX MATCH "^[0-9]*" TORCH_${torch}_CUDA_MAJOR "${cuda_version}")
endforeach()

list(GET torch_folders 0 torch_directory)
string(APPEND torch_directory /torch)
list(GET TERAIO_TORCHES 0 torch)
set(TORCH_CUDA_LIBRARY ${TORCH_${torch}_CUDA_LIBRARY})
add_library(torch_wheel ALIAS torch_${torch})

set(TERAIO_PYTHON_PACKAGE_DIR ${CMAKE_BINARY_DIR}/python/teraio)
