# Builds the CUDA device when a toolkit is found, and sets TERAIO_HAS_CUDA. All other code includes
# one header, src/device/cuda_device.h; a build without CUDA implements it in another file.
#
# The runtime is linked statically. It loads the driver at its first call, so that programs start on
# machines without a driver. It shares only the driver with the runtime of PyTorch.

if(TERAIO_CUDA STREQUAL "ON")
  find_package(CUDAToolkit 12.2 REQUIRED)
elseif(TERAIO_CUDA STREQUAL "AUTO")
  find_package(CUDAToolkit 12.2 QUIET)
elseif(NOT TERAIO_CUDA STREQUAL "OFF")
  message(FATAL_ERROR "TERAIO_CUDA=${TERAIO_CUDA}: expected ON, OFF or AUTO")
endif()

if(TERAIO_CUDA STREQUAL "OFF" OR NOT CUDAToolkit_FOUND)
  set(TERAIO_HAS_CUDA OFF)
  message(STATUS "CUDA: not built (no toolkit, or TERAIO_CUDA=OFF)")
  target_sources(teraio_device PRIVATE ${CMAKE_SOURCE_DIR}/src/device/no_cuda/cuda_device.cpp)
else()
  set(TERAIO_HAS_CUDA ON)
  message(STATUS "CUDA ${CUDAToolkit_VERSION} in ${CUDAToolkit_LIBRARY_DIR}")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/*.cpp)
  target_sources(teraio_device PRIVATE ${sources})
  target_include_directories(teraio_device SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(teraio_device PRIVATE CUDA::cudart_static)
endif()

# Tests that call CUDA themselves.
function(teraio_cuda_tests program)
  if(NOT TERAIO_BUILD_TESTS OR NOT TERAIO_HAS_CUDA)
    return()
  endif()
  target_sources(${program} PRIVATE ${CMAKE_SOURCE_DIR}/tests/device/cuda/cuda_order_test.cpp)
  target_include_directories(${program} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${program} PRIVATE CUDA::cudart_static)
endfunction()
