# Builds the CUDA device when a CUDA runtime is found, and sets TERAIO_HAS_CUDA and the target
# teraio_cudart. All other code includes one header, src/device/cuda_device.h; a build without CUDA
# implements it in another file.
#
# The runtime is the one that the PyTorch wheel brings, with its headers, where there is one: no
# toolkit is needed, and the extension uses the copy that PyTorch has loaded already. A library that
# is preloaded under the same name takes its place (testing/cuda_emulation). Otherwise the runtime of
# a toolkit is linked statically; in a wheel that serves several versions of PyTorch, some without
# CUDA, the static runtime of the package nvidia-cuda-runtime. Each loads the driver at its first
# call, so that programs start on machines without a driver.

# Finds the runtime of the wheel: sets TERAIO_WHEEL_CUDART, its kind TERAIO_WHEEL_CUDART_KIND (SHARED or
# STATIC) and TERAIO_WHEEL_CUDA_INCLUDE.
function(teraio_find_cuda_of_wheel)
  if(NOT TERAIO_BUILD_PYTORCH OR NOT TORCH_CUDA_LIBRARY)
    return()
  endif()
  if(TERAIO_TORCH_FOLDERS)
    set(kind STATIC)
    set(folder ${Python_SITELIB}/nvidia/cu13)
    file(GLOB library ${folder}/lib/libcudart_static.a)
  else()
    set(kind SHARED)
    get_filename_component(packages ${torch_directory} DIRECTORY)
    set(folder ${packages}/nvidia/cu13)
    file(GLOB library ${folder}/lib/libcudart.so.13)
  endif()
  if(library AND EXISTS ${folder}/include/cuda_runtime_api.h AND EXISTS ${folder}/include/cuda.h)
    set(TERAIO_WHEEL_CUDART ${library} PARENT_SCOPE)
    set(TERAIO_WHEEL_CUDART_KIND ${kind} PARENT_SCOPE)
    set(TERAIO_WHEEL_CUDA_INCLUDE ${folder}/include PARENT_SCOPE)
  endif()
endfunction()

if(NOT TERAIO_CUDA MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "TERAIO_CUDA=${TERAIO_CUDA}: expected ON, OFF or AUTO")
endif()
set(TERAIO_HAS_CUDA OFF)
if(NOT TERAIO_CUDA STREQUAL "OFF")
  teraio_find_cuda_of_wheel()
  if(TERAIO_WHEEL_CUDART)
    message(STATUS "CUDA: the PyTorch wheel's, ${TERAIO_WHEEL_CUDART}")
    set(TERAIO_HAS_CUDA ON)
    add_library(teraio_cudart ${TERAIO_WHEEL_CUDART_KIND} IMPORTED)
    set_target_properties(teraio_cudart PROPERTIES
      IMPORTED_LOCATION ${TERAIO_WHEEL_CUDART} IMPORTED_SONAME libcudart.so.13
      INTERFACE_INCLUDE_DIRECTORIES ${TERAIO_WHEEL_CUDA_INCLUDE})
    if(TERAIO_WHEEL_CUDART_KIND STREQUAL "STATIC")
      target_link_libraries(teraio_cudart INTERFACE Threads::Threads ${CMAKE_DL_LIBS} rt)
    endif()
  else()
    if(TERAIO_CUDA STREQUAL "ON")
      find_package(CUDAToolkit 12.2 REQUIRED)
    else()
      find_package(CUDAToolkit 12.2 QUIET)
    endif()
    if(CUDAToolkit_FOUND)
      message(STATUS "CUDA: the toolkit ${CUDAToolkit_VERSION} in ${CUDAToolkit_LIBRARY_DIR}")
      set(TERAIO_HAS_CUDA ON)
      add_library(teraio_cudart INTERFACE)
      target_include_directories(teraio_cudart SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
      target_link_libraries(teraio_cudart INTERFACE CUDA::cudart_static)
    endif()
  endif()
endif()

if(TERAIO_HAS_CUDA)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/*.cpp)
  target_sources(teraio_device PRIVATE ${sources})
  target_link_libraries(teraio_device PRIVATE teraio_cudart)
else()
  message(STATUS "CUDA: not built (no CUDA wheel of PyTorch, no toolkit, or TERAIO_CUDA=OFF)")
  target_sources(teraio_device PRIVATE ${CMAKE_SOURCE_DIR}/src/device/no_cuda/cuda_device.cpp)
endif()

# Tests that call CUDA themselves.
function(teraio_cuda_tests program)
  if(NOT TERAIO_BUILD_TESTS OR NOT TERAIO_HAS_CUDA)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/device/cuda/*.cpp)
  target_sources(${program} PRIVATE ${sources})
  target_link_libraries(${program} PRIVATE teraio_cudart)
endfunction()

# Like teraio_add_test, on the emulated GPU (testing/cuda_emulation). Where that is not built, and for
# a sanitizer, which has to be loaded before it, CTest lists the runs as not run. WITH_UNITS: compute
# and copies of each direction go on at the same time, which they do not by a seed.
function(teraio_emulated_cuda_test name program)
  cmake_parse_arguments(PARSE_ARGV 2 test "WITH_UNITS" "SHARDS" "LABELS;ENVIRONMENT")
  set(options SHARDS ${test_SHARDS} LABELS ${test_LABELS} emulated_cuda)
  if(TARGET emulated_cudart AND NOT TERAIO_SANITIZE)
    add_dependencies(${program} emulated_cudart)
    set(order TERAIO_EMULATED_CUDA_SEED=1 TERAIO_EMULATED_CUDA_LAZY=1)
    if(test_WITH_UNITS)
      set(order TERAIO_EMULATED_CUDA_UNITS=1)
    endif()
    teraio_add_test(${name} ${program} ${options} ENVIRONMENT ${test_ENVIRONMENT}
      LD_PRELOAD=$<TARGET_FILE:emulated_cudart> TERAIO_EMULATED_CUDA_POISON=1 ${order})
  else()
    teraio_add_test(${name} ${program} ${options} DISABLED)
  endif()
endfunction()
