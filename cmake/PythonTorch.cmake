# Finds the Python interpreter and the PyTorch wheel that the extension is built for, and writes what
# was found to build/python/teraio/_build_info.py.
#
# Sets Python_EXECUTABLE, Python::Module, TORCH_VERSION ("2.11.0+cu130"), torch_directory, and the
# target torch_wheel with the headers and libraries of the wheel. Does not use find_package(Torch) of the wheel, which
# in a CUDA wheel asks for nvcc even when only C++ is compiled.

if(NOT Python_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
set(Python_FIND_VIRTUALENV FIRST)
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)

# Reads the version from a file, because importing torch takes seconds and a gigabyte of memory.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import importlib.util, runpy
directory = importlib.util.find_spec('torch').submodule_search_locations[0]
print(runpy.run_path(directory + '/version.py')['__version__'], directory, sep='\\n')"
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE torch_missing ERROR_QUIET)
if(torch_missing)
  message(FATAL_ERROR
    "${Python_EXECUTABLE} has no PyTorch. Install torch 2.11 to 2.15 there first; "
    "with pip, build against it by: pip install --no-build-isolation .")
endif()
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 TORCH_VERSION)
list(GET torch_facts 1 torch_directory)
message(STATUS "PyTorch ${TORCH_VERSION} in ${torch_directory}")
if(TORCH_VERSION VERSION_LESS 2.11 OR TORCH_VERSION VERSION_GREATER_EQUAL 2.16)
  message(FATAL_ERROR "PyTorch ${TORCH_VERSION} is not supported: install one of 2.11 to 2.15")
endif()

add_library(torch_wheel INTERFACE)
target_include_directories(torch_wheel SYSTEM INTERFACE
  ${torch_directory}/include ${torch_directory}/include/torch/csrc/api/include)
target_link_libraries(torch_wheel INTERFACE
  ${torch_directory}/lib/libtorch_python.so ${torch_directory}/lib/libtorch_cpu.so
  ${torch_directory}/lib/libc10.so)
# Empty for a PyTorch without CUDA.
file(GLOB TORCH_CUDA_LIBRARY ${torch_directory}/lib/libc10_cuda.so)
# at::RecordFunction has the layout of the wheel only with NDEBUG. The wheel contains headers of
# fmt, which come before those of the system and have no library.
target_compile_definitions(torch_wheel INTERFACE NDEBUG FMT_HEADER_ONLY=1)

set(TERAIO_PYTHON_PACKAGE_DIR ${CMAKE_BINARY_DIR}/python/teraio)
configure_file(${CMAKE_SOURCE_DIR}/cmake/_build_info.py.in ${TERAIO_PYTHON_PACKAGE_DIR}/_build_info.py)
